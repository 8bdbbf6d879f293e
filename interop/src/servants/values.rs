//! Groups of values: all of them follow the echo rule.

use crate::generated::interop::*;
use isorb::{Deferred, LongDouble, Outcome, Result, Upcall};

/// Stands behind every group that keeps nothing.
pub(super) struct Echo;

impl Scalars for Echo {
    fn nothing(&self, _: Upcall<'_>) -> Result<()> {
        Ok(())
    }
    echo! {
        echo_boolean bool;
        echo_char char;
        echo_octet u8;
        echo_short i16;
        echo_ushort u16;
        echo_long i32;
        echo_ulong u32;
        echo_longlong i64;
        echo_ulonglong u64;
    }
}

impl FloatingPoint for Echo {
    echo! {
        echo_float f32;
        echo_double f64;
    }
}

impl LongDoubles for Echo {
    echo! {
        echo_longdouble LongDouble;
    }
}

impl NarrowStrings for Echo {
    echo_views! { 'u:
        echo_string &'u str;
        echo_short_string ShortStringView<'u>;
    }
}

impl Wides for Echo {
    echo_views! { 'u:
        echo_wstring &'u str;
        echo_wstrings WStringsView<'u>;
    }
}

impl BoundedWides for Echo {
    echo_views! { 'u:
        echo_short_wstring ShortWStringView<'u>;
    }
}

impl WideChars for Echo {
    echo! {
        echo_wchar char;
        echo_three_wchars ThreeWChars;
    }
    echo_views! { 'u:
        echo_wide WideView<'u>;
        echo_wchars WCharsView<'u>;
        echo_over_wide OverWideView<'u>;
    }
}

impl Enums for Echo {
    echo! {
        echo_colour Colour;
        echo_paint Paint;
    }
    echo_views! { 'u:
        echo_colours ColoursView<'u>;
    }
}

impl Structs for Echo {
    echo! {
        echo_point Point;
        echo_padded Padded;
    }
    echo_views! { 'u:
        echo_mixed MixedView<'u>;
        echo_nested NestedView<'u>;
        echo_holder HolderView<'u>;
        echo_with_arrays WithArraysView<'u>;
    }
}

impl Unions for Echo {
    echo! {
        echo_over_enum_open OverEnumOpen;
        echo_over_boolean_open OverBooleanOpen;
        echo_over_ulonglong OverULongLong;
    }
    echo_views! { 'u:
        echo_over_long OverLongView<'u>;
        echo_over_enum OverEnumView<'u>;
        echo_over_boolean OverBooleanView<'u>;
        echo_over_char OverCharView<'u>;
        echo_over_short OverShortView<'u>;
    }
}

impl Sequences for Echo {
    echo_views! { 'u:
        echo_octets OctetsView<'u>;
        echo_booleans BooleansView<'u>;
        echo_chars CharsView<'u>;
        echo_shorts ShortsView<'u>;
        echo_longs LongsView<'u>;
        echo_ulonglongs ULongLongsView<'u>;
        echo_floats FloatsView<'u>;
        echo_doubles DoublesView<'u>;
        echo_strings StringsView<'u>;
        echo_points PointsView<'u>;
        echo_mixeds MixedsView<'u>;
        echo_over_longs OverLongsView<'u>;
        echo_longs_list LongsListView<'u>;
        echo_four_longs FourLongsView<'u>;
        echo_three_short_strings ThreeShortStringsView<'u>;
    }
}

impl Arrays for Echo {
    echo! {
        echo_five_longs FiveLongs;
        echo_grid Grid;
        echo_cube Cube;
        echo_eight_octets EightOctets;
        echo_two_points TwoPoints;
    }
    echo_views! { 'u:
        echo_three_strings ThreeStringsView<'u>;
        echo_two_mixeds TwoMixedsView<'u>;
        echo_two_longs TwoLongsView<'u>;
    }
}

impl Fixeds for Echo {
    echo! {
        echo_money Money;
        echo_huge Huge;
        echo_fraction Fraction;
        echo_even_digits EvenDigits;
        echo_invoice Invoice;
    }
    echo_views! { 'u:
        echo_moneys MoneysView<'u>;
    }
}

impl Recursive for Echo {
    echo_views! { 'u:
        echo_tree TreeView<'u>;
        echo_expression ExpressionView<'u>;
    }
    fn depth(&self, _: Upcall<'_>, root: TreeView<'_>) -> Result<u32> {
        fn depth(tree: &TreeView<'_>) -> u32 {
            1 + tree.children.iter().map(depth).max().unwrap_or(0)
        }
        Ok(depth(&root))
    }
}

impl Typedefs for Echo {
    echo! {
        echo_height Height;
    }
    echo_views! { 'u:
        echo_profile ProfileView<'u>;
        echo_triple TripleView<'u>;
        echo_alias2 Alias2View<'u>;
    }
}

impl Large for Echo {
    echo_views! { 'u:
        echo_octets OctetsView<'u>;
        echo_string &'u str;
        echo_doubles DoublesView<'u>;
        echo_mixeds MixedsView<'u>;
    }
    fn pattern<'u>(&'u self, cx: Upcall<'u>, length: u32) -> Result<OctetsView<'u>> {
        cx.keep((0..length).map(|i| (i % 251) as u8).collect::<Vec<u8>>()).map(Vec::as_slice)
    }
    fn sum(&self, _: Upcall<'_>, data: OctetsView<'_>) -> Result<u64> {
        Ok(data.iter().map(|octet| u64::from(*octet)).sum())
    }
}

impl Slow for Echo {
    /// Replies later, so that the next request of the connection need not wait.
    fn sleep_ms(&self, cx: Upcall<'_>, ms: u32) -> Result<u32> {
        let later = cx.defer()?;
        std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(ms.into()));
            // The client may be gone.
            let _ = later.reply(|e| {
                e.put(ms);
                Ok(Outcome::Results)
            });
        });
        Err(Deferred::LATER)
    }
}

impl Contexts for Echo {
    fn lookup<'u>(&'u self, _: Upcall<'u>, key: &'u str, context: &'u [&'u str]) -> Result<&'u str> {
        let mut pairs = context.chunks_exact(2).filter(|pair| pair[0] == key);
        Ok(pairs.next().map_or("", |pair| pair[1]))
    }
}
