//! Service contexts by their meaning (clause 7.7.1).
//!
//! The small ones are arrays, so that sending one with every request allocates nothing.

use crate::codeset::{self, CodeSetComponentInfo};
use crate::component::PolicyValue;
use crate::cursor::Cursor;
use crate::octets::{encapsulated, put_name};
use crate::{Kind, SystemException, minor};
use alloc::string::String;
use alloc::vec::Vec;
use isorb_cdr::{Decoder, ErrorKind, Order, Result, Text, Version};
use isorb_scope::Scope;

/// TransactionService.
pub const TRANSACTION: u32 = 0;
/// CodeSets.
pub const CODE_SETS: u32 = 1;
/// BI_DIR_IIOP.
pub const BI_DIR_IIOP: u32 = 5;
/// SendingContextRunTime.
pub const SENDING_CONTEXT_RUN_TIME: u32 = 6;
/// INVOCATION_POLICIES.
pub const INVOCATION_POLICIES: u32 = 7;
/// FORWARDED_IDENTITY.
pub const FORWARDED_IDENTITY: u32 = 8;
/// UnknownExceptionInfo: from Java, the exception as a value.
pub const UNKNOWN_EXCEPTION_INFO: u32 = 9;
/// RTCorbaPriority.
pub const RT_CORBA_PRIORITY: u32 = 10;
/// RTCorbaPriorityRange.
pub const RT_CORBA_PRIORITY_RANGE: u32 = 11;
/// FT_GROUP_VERSION.
pub const FT_GROUP_VERSION: u32 = 12;
/// FT_REQUEST.
pub const FT_REQUEST: u32 = 13;
/// ExceptionDetailMessage.
pub const EXCEPTION_DETAIL_MESSAGE: u32 = 14;
/// SecurityAttributeService.
pub const SECURITY_ATTRIBUTE: u32 = 15;

/// The standard's name of a context; `None` when it is not known here.
pub fn name(id: u32) -> Option<&'static str> {
    Some(match id {
        TRANSACTION => "TransactionService",
        CODE_SETS => "CodeSets",
        2 => "ChainBypassCheck",
        3 => "ChainBypassInfo",
        4 => "LogicalThreadId",
        BI_DIR_IIOP => "BI_DIR_IIOP",
        SENDING_CONTEXT_RUN_TIME => "SendingContextRunTime",
        INVOCATION_POLICIES => "INVOCATION_POLICIES",
        FORWARDED_IDENTITY => "FORWARDED_IDENTITY",
        UNKNOWN_EXCEPTION_INFO => "UnknownExceptionInfo",
        RT_CORBA_PRIORITY => "RTCorbaPriority",
        RT_CORBA_PRIORITY_RANGE => "RTCorbaPriorityRange",
        FT_GROUP_VERSION => "FT_GROUP_VERSION",
        FT_REQUEST => "FT_REQUEST",
        EXCEPTION_DETAIL_MESSAGE => "ExceptionDetailMessage",
        SECURITY_ATTRIBUTE => "SecurityAttributeService",
        _ => return None,
    })
}

/// A decoder at a context's octets, behind their byte-order octet, for contexts that this crate
/// does not read.
///
/// # Errors
/// [`ErrorKind::Length`] for no octets, [`ErrorKind::Full`].
///
/// # Real-time
/// Copies the octets into the scope.
pub fn decoder<'m>(data: &[u8], text: Text, scope: &'m Scope<'m>) -> Result<Decoder<'m>> {
    let bytes = scope.aligned_copy(data)?;
    let order = bytes.first().map_or(Order::Big, |flag| Order::from_flag(*flag));
    let mut d = Decoder::new(bytes, order, text, scope);
    match d.take(1) {
        Ok(_) => Ok(d),
        Err(error) => Err(isorb_cdr::Error { kind: ErrorKind::Length, ..error }),
    }
}

/// The code sets that a client chose for a connection (clause 7.10.2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeSets {
    /// Code set of `char` and `string`.
    pub char_data: u32,
    /// Code set of `wchar` and `wstring`, 0 for none.
    pub wchar_data: u32,
}

impl CodeSets {
    /// The code sets of a connection's text.
    pub const fn of(text: Text) -> CodeSets {
        CodeSets { char_data: codeset::narrow_id(text.narrow), wchar_data: codeset::wide_id(text.wide) }
    }

    /// Reads the context.
    ///
    /// # Errors
    /// [`isorb_cdr::Error`] for malformed octets.
    pub fn read(data: &[u8]) -> Result<CodeSets> {
        let c = &mut Cursor::encapsulation(data)?;
        Ok(CodeSets { char_data: c.u32()?, wchar_data: c.u32()? })
    }

    /// The context's octets.
    pub fn write(self) -> [u8; 12] {
        let mut data = [0; 12];
        data[0] = Order::NATIVE.flag();
        data[4..8].copy_from_slice(&self.char_data.to_ne_bytes());
        data[8..].copy_from_slice(&self.wchar_data.to_ne_bytes());
        data
    }

    /// The text of the connection.
    ///
    /// # Errors
    /// CODESET_INCOMPATIBLE, as [`codeset::chosen`].
    pub fn text(self, version: Version) -> Result<Text, SystemException> {
        codeset::chosen(version, self.char_data, self.wchar_data)
    }

    /// Chooses code sets for a server that offers `server`.
    ///
    /// # Errors
    /// CODESET_INCOMPATIBLE, as [`codeset::negotiate`].
    pub fn choose(server: &CodeSetComponentInfo) -> Result<CodeSets, SystemException> {
        let (narrow, wide) = codeset::negotiate(&CodeSetComponentInfo::ours(), server)?;
        Ok(CodeSets { char_data: codeset::narrow_id(narrow), wchar_data: codeset::wide_id(wide) })
    }
}

/// The octets of an RTCorbaPriority context (RT-CORBA 1.2, priority models).
pub fn rt_corba_priority(priority: i16) -> [u8; 4] {
    let [a, b] = priority.to_ne_bytes();
    [Order::NATIVE.flag(), 0, a, b]
}

/// Reads an RTCorbaPriority context.
///
/// # Errors
/// MARSHAL for malformed octets; DATA_CONVERSION with the OMG's minor code 2 for a negative
/// priority.
pub fn read_rt_corba_priority(data: &[u8]) -> Result<i16, SystemException> {
    priority(&mut Cursor::encapsulation(data)?)
}

fn priority(c: &mut Cursor<'_>) -> Result<i16, SystemException> {
    let unmappable =
        SystemException::new(Kind::DataConversion, minor::DATA_CONVERSION_PRIORITY, crate::Completion::No);
    i16::try_from(c.u16()?).map_err(|_| unmappable)
}

/// A priority band, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PriorityRange {
    /// Lowest CORBA priority.
    pub low: i16,
    /// Highest CORBA priority.
    pub high: i16,
}

impl PriorityRange {
    /// The octets of an RTCorbaPriorityRange context.
    pub fn write(self) -> [u8; 6] {
        let ([a, b], [c, d]) = (self.low.to_ne_bytes(), self.high.to_ne_bytes());
        [Order::NATIVE.flag(), 0, a, b, c, d]
    }

    /// Reads an RTCorbaPriorityRange context.
    ///
    /// # Errors
    /// As [`read_rt_corba_priority`]; also DATA_CONVERSION for a low end above the high end.
    pub fn read(data: &[u8]) -> Result<PriorityRange, SystemException> {
        let c = &mut Cursor::encapsulation(data)?;
        let range = PriorityRange { low: priority(c)?, high: priority(c)? };
        if range.low > range.high {
            return Err(SystemException::from(Kind::DataConversion).minor(minor::DATA_CONVERSION_PRIORITY));
        }
        Ok(range)
    }
}

/// An address at which the client of a bidirectional connection would listen (clause 9.8.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenPoint {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// Reads a BI_DIR_IIOP context.
///
/// # Errors
/// [`isorb_cdr::Error`] for malformed octets.
///
/// # Real-time
/// Allocates; received once for each connection.
pub fn read_listen_points(data: &[u8]) -> Result<Vec<ListenPoint>> {
    let c = &mut Cursor::encapsulation(data)?;
    let n = c.count(6)?;
    (0..n).map(|_| Ok(ListenPoint { host: c.str()?.into(), port: c.u16()? })).collect()
}

/// The octets of a BI_DIR_IIOP context.
///
/// # Errors
/// [`isorb_cdr::Error`] for a host with a zero character in it.
///
/// # Real-time
/// Allocates; sent once for each connection.
pub fn listen_points(points: &[ListenPoint]) -> Result<Vec<u8>> {
    encapsulated(|e| {
        e.count(points.len());
        for point in points {
            put_name(e, &point.host);
            e.put(point.port);
        }
    })
}

/// Reads an INVOCATION_POLICIES context.
///
/// # Errors
/// [`isorb_cdr::Error`] for malformed octets.
///
/// # Real-time
/// Allocates.
pub fn read_invocation_policies(data: &[u8]) -> Result<Vec<PolicyValue>> {
    PolicyValue::read_all(&mut Cursor::encapsulation(data)?)
}

/// The octets of an INVOCATION_POLICIES context.
///
/// # Errors
/// [`isorb_cdr::Error`] when they are 4 GiB or more.
///
/// # Real-time
/// Allocates; make them when a policy changes.
pub fn invocation_policies(policies: &[PolicyValue]) -> Result<Vec<u8>> {
    encapsulated(|e| PolicyValue::write_all(policies, e))
}

/// Reads an ExceptionDetailMessage context: a wide string as GIOP 1.2 has it in UTF-16 (clause
/// 7.7.1).
///
/// # Errors
/// [`isorb_cdr::Error`] for malformed octets.
///
/// # Real-time
/// Allocates; comes with exceptions only.
pub fn read_exception_detail(data: &[u8]) -> Result<String> {
    let c = &mut Cursor::encapsulation(data)?;
    let octets = c.octets()?;
    let malformed = c.error(ErrorKind::Text);
    if !octets.len().is_multiple_of(2) {
        return Err(malformed);
    }
    let (octets, order) = match octets {
        [0xfe, 0xff, rest @ ..] => (rest, Order::Big),
        [0xff, 0xfe, rest @ ..] => (rest, Order::Little),
        _ => (octets, Order::Big),
    };
    let units = octets.chunks_exact(2).map(|unit| match order {
        Order::Big => u16::from_be_bytes([unit[0], unit[1]]),
        Order::Little => u16::from_le_bytes([unit[0], unit[1]]),
    });
    char::decode_utf16(units).collect::<Result<_, _>>().map_err(|_| malformed)
}

/// The octets of an ExceptionDetailMessage context.
///
/// # Errors
/// [`isorb_cdr::Error`] when they are 4 GiB or more.
///
/// # Real-time
/// Allocates; comes with exceptions only.
pub fn exception_detail(detail: &str) -> Result<Vec<u8>> {
    encapsulated(|e| e.wstring(detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use isorb_scope::Region;
    use proptest::prelude::*;

    #[test]
    fn golden() {
        // Byte order, padding to the member's alignment, members.
        assert_eq!(
            CodeSets::read(b"\0\0\0\0\x05\x01\0\x01\0\x01\x01\x09"),
            Ok(CodeSets { char_data: codeset::UTF_8, wchar_data: codeset::UTF_16 })
        );
        assert_eq!(
            CodeSets::read(b"\x01\0\0\0\x01\0\x01\0\0\0\0\0").unwrap().text(Version::V1_1),
            Ok(Text::fallback(Version::V1_1))
        );
        assert_eq!(read_rt_corba_priority(b"\0\0\x12\x34"), Ok(0x1234));
        assert_eq!(read_rt_corba_priority(b"\x01\0\x34\x12"), Ok(0x1234));
        assert_eq!(PriorityRange::read(b"\0\0\0\x01\0\x05"), Ok(PriorityRange { low: 1, high: 5 }));
        assert_eq!(
            read_listen_points(b"\x01\0\0\0\x01\0\0\0\x02\0\0\0h\0\xf9\x0a"),
            Ok(vec![ListenPoint { host: "h".into(), port: 2809 }])
        );
        assert_eq!(read_exception_detail(b"\0\0\0\0\0\0\0\x02\0h").as_deref(), Ok("h"));
        assert_eq!(read_exception_detail(b"\x01\0\0\0\x04\0\0\0\xff\xfeh\0").as_deref(), Ok("h"));
        assert_eq!(
            read_invocation_policies(b"\0\0\0\0\0\0\0\x01\0\0\0\x17\0\0\0\x01\x07"),
            Ok(vec![PolicyValue { policy_type: 23, value: vec![7] }])
        );
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert_eq!(read_rt_corba_priority(b"\0\0\x80\0").unwrap_err().kind, Kind::DataConversion);
        assert_eq!(read_rt_corba_priority(b"\0\0\x80").unwrap_err().kind, Kind::Marshal);
        assert_eq!(PriorityRange::read(b"\0\0\0\x05\0\x01").unwrap_err().kind, Kind::DataConversion);
        assert!(read_exception_detail(b"\0\0\0\0\0\0\0\x03\0h\0").is_err());
        assert!(read_exception_detail(b"\0\0\0\0\0\0\0\x02\xd8\0").is_err());
    }

    #[test]
    fn round_trips() {
        assert_eq!(CodeSets::read(&CodeSets::of(Text::DEFAULT).write()), Ok(CodeSets::of(Text::DEFAULT)));
        assert_eq!(CodeSets::choose(&CodeSetComponentInfo::ours()), Ok(CodeSets::of(Text::DEFAULT)));
        assert_eq!(read_rt_corba_priority(&rt_corba_priority(32767)), Ok(32767));
        let range = PriorityRange { low: 0, high: 32767 };
        assert_eq!(PriorityRange::read(&range.write()), Ok(range));
        let points = vec![ListenPoint { host: "::1".into(), port: 9 }];
        assert_eq!(read_listen_points(&listen_points(&points).unwrap()), Ok(points));
        let policies = vec![PolicyValue { policy_type: 24, value: vec![1, 0, 2] }];
        assert_eq!(read_invocation_policies(&invocation_policies(&policies).unwrap()), Ok(policies));
        let detail = "gr\u{fc}n \u{1f600}";
        assert_eq!(read_exception_detail(&exception_detail(detail).unwrap()).as_deref(), Ok(detail));
    }

    #[test]
    fn other_contexts_by_decoder() {
        let mut region = Region::new(64);
        let scope = region.enter();
        let mut d = decoder(b"\0\0\0\0\0\0\0\x05", Text::DEFAULT, &scope).unwrap();
        assert_eq!(d.get(), Ok(5u32));
        assert_eq!(decoder(b"", Text::DEFAULT, &scope).unwrap_err().kind, ErrorKind::Length);
    }

    proptest! {
        #[test]
        fn any_bytes(data: Vec<u8>) {
            let _ = CodeSets::read(&data).map(|sets| sets.text(Version::V1_2));
            let _ = read_rt_corba_priority(&data);
            let _ = PriorityRange::read(&data);
            let _ = read_listen_points(&data);
            let _ = read_invocation_policies(&data);
            let _ = read_exception_detail(&data);
        }
    }
}
