//! `TypeCode` and `Any`.
