//! Congestion marks across a tunnel (RFC 6040).

/// The ECN field in the traffic class.
const ECN_MASK: u8 = 0b11;
const NOT_ECT: u8 = 0b00;
const ECT_1: u8 = 0b01;
const CE: u8 = 0b11;

/// Returns the traffic class of the outer header: the inner class if the DSCP is copied, otherwise the ECN field alone (normal
/// mode of RFC 6040, 4.1).
pub(crate) fn encapsulate(inner: u8, copies_dscp: bool) -> u8 {
    if copies_dscp { inner } else { inner & ECN_MASK }
}

/// Returns the traffic class of a decapsulated packet, from the classes of the inner and the outer header (RFC 6040, 4.2). Returns
/// `None` if the packet must be dropped, because congestion was marked on the way and the endpoints do not support ECN.
pub(crate) fn decapsulate(inner: u8, outer: u8) -> Option<u8> {
    let mark = match (inner & ECN_MASK, outer & ECN_MASK) {
        (NOT_ECT, CE) => return None,
        (NOT_ECT, _) => NOT_ECT,
        (_, CE) => CE,
        // Only ECT(0) becomes ECT(1); the other marks stay.
        (own, ECT_1) if own != CE => ECT_1,
        (own, _) => own,
    };
    Some(inner & !ECN_MASK | mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ECT_0: u8 = 0b10;

    #[test]
    fn marks_combine_as_in_figure_4_of_rfc_6040() {
        let columns = [NOT_ECT, ECT_0, ECT_1, CE];
        let rows = [
            (NOT_ECT, [Some(NOT_ECT), Some(NOT_ECT), Some(NOT_ECT), None]),
            (ECT_0, [Some(ECT_0), Some(ECT_0), Some(ECT_1), Some(CE)]),
            (ECT_1, [Some(ECT_1), Some(ECT_1), Some(ECT_1), Some(CE)]),
            (CE, [Some(CE), Some(CE), Some(CE), Some(CE)]),
        ];
        for (own, results) in rows {
            for (around, result) in columns.into_iter().zip(results) {
                assert_eq!(decapsulate(own, around), result, "{own:02b} in {around:02b}");
                let service = 46 << 2;
                assert_eq!(decapsulate(own | service, around | 8 << 2), result.map(|mark| mark | service));
            }
        }
    }

    #[test]
    fn the_dscp_is_copied_only_if_allowed() {
        assert_eq!((encapsulate(46 << 2 | ECT_0, true), encapsulate(46 << 2 | ECT_0, false)), (46 << 2 | ECT_0, ECT_0));
    }
}
