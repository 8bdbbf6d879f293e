//! User exceptions, system exceptions, attributes.

use crate::check::{Check, Run, Stop};
use crate::generated::interop::*;
use crate::types::mixed;
use crate::{expect, expect_err};
use attribute_exceptions::{GuardedError, SetGuardedError};
use isorb::{Completion, Kind, SystemException};
use user_exceptions::{RaiseEmptyError, RaisePlainError, RaiseRichError};

pub(super) fn user_exceptions(run: &Run<'_>) -> Check {
    let o: UserExceptionsRef = run.group()?;
    expect_err!(o.raise_empty(), RaiseEmptyError::Empty(_));
    expect!(o.raise_plain(0, "fine")? == (1, "fine".to_owned()));
    expect_err!(o.raise_plain(-5, "reason"), RaisePlainError::Plain(e) if e.code == -5 && e.why == "reason");
    expect_err!(o.raise_plain(i32::MIN, ""), RaisePlainError::Plain(e) if e.code == i32::MIN && e.why.is_empty());
    let detail = mixed("detail", Colour::Green, 3);
    let samples = [0.0, 0.25, 0.5];
    let choice = OverLong::Text { label: 2, value: "choice".into() };
    expect_err!(
        o.raise_rich(Colour::Blue, &detail, &samples, &choice),
        RaiseRichError::Rich(e)
            if e.paint == Colour::Blue && e.detail == detail && e.samples == samples && e.choice == choice
    );
    expect_err!(o.raise_empty(), RaiseEmptyError::Empty(_));
    Ok(())
}

pub(super) fn system_exceptions(run: &Run<'_>) -> Check {
    use Kind::*;
    let o: SystemExceptionsRef = run.group()?;
    let minors = [0, 1, 0x4f4d_0002, 0xffff_fffe];
    let mut i = 0;
    for kind in Kind::ALL {
        // omniORB has no such exceptions.
        if matches!(kind, InvalidActivity | ActivityCompleted | ActivityRequired | ThreadCancelled) {
            continue;
        }
        for completed in [Completion::Yes, Completion::No, Completion::Maybe] {
            // These ask an ORB to try again: sent only with COMPLETED_MAYBE.
            let retried = matches!(kind, CommFailure | Transient | ObjectNotExist | NoResponse);
            if retried && completed != Completion::Maybe {
                continue;
            }
            let want = SystemException::new(*kind, minors[i % 4], completed);
            i += 1;
            match o.raise_system(kind.name(), want.minor, completed as u32) {
                Err(got) if got == want => {}
                Err(got) => return Err(Stop::Fail(format!("{want} came as {got}"))),
                Ok(()) => return Err(Stop::Fail(format!("no exception for {want}"))),
            }
        }
    }
    expect_err!(o.raise_system("NONSENSE", 5, 0), e if e.kind == BadParam && e.minor == 0);
    expect_err!(o.raise_native(), e if e.kind == Unknown);
    Ok(())
}

pub(super) fn attributes(run: &Run<'_>) -> Check {
    let o: AttributesRef = run.group()?;
    let before = o.changes()?;
    o.set_label("new label")?;
    expect!(o.label()? == "new label");
    o.set_label("")?;
    expect!(o.label()?.is_empty() && o.changes()? == before + 2);
    let detail = mixed("attribute", Colour::Blue, -1);
    o.set_detail(&detail)?;
    expect!(o.detail()? == detail);
    o.set_paint(Colour::Green)?;
    expect!(o.paint()? == Colour::Green);
    o.set_paint(Colour::Red)?;
    expect!(o.paint()? == Colour::Red);
    Ok(())
}

pub(super) fn attribute_exceptions(run: &Run<'_>) -> Check {
    let o: AttributeExceptionsRef = run.group()?;
    o.set_guarded(5)?;
    expect!(o.guarded()? == 5);
    expect_err!(o.set_guarded(-4), SetGuardedError::Plain(e) if e.code == -4 && e.why == "negative");
    expect!(o.guarded()? == 5);
    o.set_guarded(13)?;
    expect_err!(o.guarded(), GuardedError::Empty(_));
    expect_err!(o.always_fails(), SetGuardedError::Plain(e) if e.code == 1 && e.why == "always");
    o.set_guarded(0)?;
    Ok(())
}
