//! `IOP::Codec` (part 1, chapter 'Portable Interceptors'): values as octets, and back, for service
//! contexts, components of references, files.

use crate::{Any, TypeCode};
use alloc::vec::Vec;
use core::fmt;
use isorb_cdr::{Decoder, Encoder, Error, ErrorKind, Narrow, Order, Text, Version, Wide};
use isorb_scope::Region;

/// `ENCODING_CDR_ENCAPS`.
pub const ENCODING_CDR_ENCAPS: i16 = 0;

/// `IOP::Encoding`: the format of octets, and its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// [`ENCODING_CDR_ENCAPS`], or another format, which isorb does not know.
    pub format: i16,
    /// Major version, that of GIOP.
    pub major: u8,
    /// Minor version.
    pub minor: u8,
}

impl Encoding {
    /// A CDR encapsulation of GIOP 1.2.
    pub const CDR_1_2: Encoding = Encoding { format: ENCODING_CDR_ENCAPS, major: 1, minor: 2 };
}

/// `CodecFactory::UnknownEncoding`: no codec has this format and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownEncoding(pub Encoding);

impl fmt::Display for UnknownEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Encoding { format, major, minor } = self.0;
        write!(f, "no codec has the format {format} in version {major}.{minor} (UnknownEncoding): ")?;
        f.write_str("there are CDR encapsulations, format 0, of versions 1.0 to 1.2")
    }
}

impl core::error::Error for UnknownEncoding {}

/// The exceptions of `IOP::Codec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodecError {
    /// `InvalidTypeForEncoding`: the encoding has no form for the value: wide text in version 1.0,
    /// text outside of the code set, a local object.
    InvalidTypeForEncoding(Error),
    /// `FormatMismatch`: the octets are no encapsulation, or not one of type and value.
    FormatMismatch(Error),
    /// `TypeMismatch`: the octets are no value of the type that they are to be of.
    TypeMismatch(Error),
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CodecError::InvalidTypeForEncoding(error) => {
                write!(f, "the encoding has no form for the value (InvalidTypeForEncoding): {error}")
            }
            CodecError::FormatMismatch(error) => {
                write!(f, "the octets are not what the codec writes (FormatMismatch): {error}")
            }
            CodecError::TypeMismatch(error) => {
                write!(f, "the octets are no value of the type (TypeMismatch): {error}")
            }
        }
    }
}

impl core::error::Error for CodecError {}

/// `IOP::Codec` for CDR encapsulations: an octet with the byte order, then the value, aligned from
/// that octet on.
///
/// It writes this machine's byte order and reads both. Narrow text is in ISO 8859-1 and wide text
/// in UTF-16 unless [`Codec::with_code_sets`] says otherwise: an encapsulation does not name its
/// code sets.
///
/// ```
/// use isorb_any::{Any, Codec, Encoding, TypeCode};
/// let codec = Codec::new(Encoding::CDR_1_2).unwrap();
/// let octets = codec.encode_value(&Any::from(7i32)).unwrap();
/// assert_eq!(octets.len(), 8);
/// assert_eq!(codec.decode_value(&octets, &TypeCode::LONG).unwrap().get::<i32>(), Some(7));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codec {
    text: Text,
}

impl Codec {
    /// `CodecFactory::create_codec`.
    ///
    /// # Errors
    /// [`UnknownEncoding`] unless it is a CDR encapsulation of version 1.0, 1.1 or 1.2.
    pub fn new(encoding: Encoding) -> Result<Codec, UnknownEncoding> {
        let version = match encoding {
            Encoding { format: ENCODING_CDR_ENCAPS, major: 1, minor: 0 } => Version::V1_0,
            Encoding { format: ENCODING_CDR_ENCAPS, major: 1, minor: 1 } => Version::V1_1,
            Encoding { format: ENCODING_CDR_ENCAPS, major: 1, minor: 2 } => Version::V1_2,
            other => return Err(UnknownEncoding(other)),
        };
        let wide = if version == Version::V1_0 { Wide::None } else { Wide::Utf16 };
        Ok(Codec { text: Text { version, narrow: Narrow::Latin1, wide } })
    }

    /// `create_codec_with_codesets`: the same, with other code sets. Version 1.0 has no wide text.
    pub fn with_code_sets(mut self, narrow: Narrow, wide: Wide) -> Codec {
        self.text.narrow = narrow;
        self.text.wide = if self.text.version == Version::V1_0 { Wide::None } else { wide };
        self
    }

    /// `encode`: the type and the value.
    ///
    /// # Errors
    /// [`CodecError::InvalidTypeForEncoding`].
    ///
    /// # Real-time
    /// Allocates.
    pub fn encode(&self, value: &Any) -> Result<Vec<u8>, CodecError> {
        self.write(|e| value.write(e))
    }

    /// `encode_value`: the value alone, for a reader that knows its type.
    ///
    /// # Errors
    /// [`CodecError::InvalidTypeForEncoding`].
    ///
    /// # Real-time
    /// Allocates.
    pub fn encode_value(&self, value: &Any) -> Result<Vec<u8>, CodecError> {
        self.write(|e| value.write_value(e))
    }

    /// `decode`: a value with its type.
    ///
    /// # Errors
    /// [`CodecError::FormatMismatch`], also for octets that are left over.
    ///
    /// # Real-time
    /// Allocates, in proportion to the octets.
    pub fn decode(&self, octets: &[u8]) -> Result<Any, CodecError> {
        let read = self.read(octets, Any::read)?;
        read.map_err(CodecError::FormatMismatch)
    }

    /// `decode_value`: a value of the type `tc`.
    ///
    /// # Errors
    /// [`CodecError::FormatMismatch`] for octets without a byte order; [`CodecError::TypeMismatch`]
    /// for octets that are no value of the type, or more than one.
    ///
    /// # Real-time
    /// As [`Codec::decode`].
    pub fn decode_value(&self, octets: &[u8], tc: &TypeCode) -> Result<Any, CodecError> {
        let read = self.read(octets, |d| Any::take(tc.clone(), d))?;
        read.map_err(CodecError::TypeMismatch)
    }

    fn write<'v>(&self, write: impl FnOnce(&mut Encoder<'v>)) -> Result<Vec<u8>, CodecError> {
        let mut e = Encoder::new(Vec::new(), self.text);
        e.raw(&[Order::NATIVE.flag()]);
        write(&mut e);
        e.flatten().map_err(CodecError::InvalidTypeForEncoding)
    }

    /// The inner result is that of what lies behind the byte order.
    fn read<T>(
        &self,
        octets: &[u8],
        read: impl FnOnce(&mut Decoder<'_>) -> isorb_cdr::Result<T>,
    ) -> Result<isorb_cdr::Result<T>, CodecError> {
        let order = match octets.first() {
            Some(flag @ 0..=1) => Order::from_flag(*flag),
            Some(_) => return Err(CodecError::FormatMismatch(Error { kind: ErrorKind::Value, at: 0 })),
            None => return Err(CodecError::FormatMismatch(Error { kind: ErrorKind::Length, at: 0 })),
        };
        let mut region = Region::new(octets.len() + 8);
        let scope = region.enter();
        // The region was made large enough for the copy.
        let copy = scope.aligned_copy(octets).unwrap_or(&mut []);
        let mut d = Decoder::new(copy, order, self.text, &scope);
        Ok(d.take(1).map(|_| ()).and_then(|()| {
            let value = read(&mut d)?;
            if d.remaining() == 0 { Ok(value) } else { Err(d.error(ErrorKind::Length)) }
        }))
    }
}
