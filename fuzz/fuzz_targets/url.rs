//! Object URLs and names: every readable one is written in a form that reads as the same.
#![no_main]

use isorb_giop::{Name, ObjectUrl, SystemException, explain};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match text.parse::<ObjectUrl>() {
        Ok(url) => {
            let written = url.to_string();
            assert_eq!(written.parse().as_ref(), Ok(&url), "{written}");
            let _ = explain::explain_url(&url);
            if let ObjectUrl::Corbaloc(corbaloc) = url {
                let _ = corbaloc.to_ior();
            }
        }
        Err(error) => {
            assert!(error.column <= text.chars().count() + 1, "{error}");
            drop(SystemException::from(error).to_string());
        }
    }
    if let Ok(name) = text.parse::<Name>() {
        assert_eq!(name.to_string(), text);
    }
});
