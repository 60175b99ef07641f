//! Numbers of `linux/netlink.h` and `linux/xfrm.h`. The names are those of the headers, without prefixes such as `NLMSG_` and `XFRM_`.

/// Numbers of messages, field `nlmsg_type`.
pub mod message {
    /// NLMSG_NOOP: ignored.
    pub const NOOP: u16 = 1;
    /// NLMSG_ERROR: an acknowledgement, or a refusal.
    pub const ERROR: u16 = 2;
    /// NLMSG_DONE: the end of a dump.
    pub const DONE: u16 = 3;
    /// XFRM_MSG_NEWSA.
    pub const NEWSA: u16 = 0x10;
    /// XFRM_MSG_DELSA.
    pub const DELSA: u16 = 0x11;
    /// XFRM_MSG_GETSA.
    pub const GETSA: u16 = 0x12;
    /// XFRM_MSG_NEWPOLICY.
    pub const NEWPOLICY: u16 = 0x13;
    /// XFRM_MSG_DELPOLICY.
    pub const DELPOLICY: u16 = 0x14;
    /// XFRM_MSG_GETPOLICY.
    pub const GETPOLICY: u16 = 0x15;
    /// XFRM_MSG_ALLOCSPI.
    pub const ALLOCSPI: u16 = 0x16;
    /// XFRM_MSG_ACQUIRE.
    pub const ACQUIRE: u16 = 0x17;
    /// XFRM_MSG_EXPIRE.
    pub const EXPIRE: u16 = 0x18;
    /// XFRM_MSG_UPDPOLICY.
    pub const UPDPOLICY: u16 = 0x19;
    /// XFRM_MSG_UPDSA.
    pub const UPDSA: u16 = 0x1a;
    /// XFRM_MSG_POLEXPIRE.
    pub const POLEXPIRE: u16 = 0x1b;
    /// XFRM_MSG_FLUSHSA.
    pub const FLUSHSA: u16 = 0x1c;
    /// XFRM_MSG_FLUSHPOLICY.
    pub const FLUSHPOLICY: u16 = 0x1d;
    /// XFRM_MSG_NEWAE.
    pub const NEWAE: u16 = 0x1e;
    /// XFRM_MSG_GETAE.
    pub const GETAE: u16 = 0x1f;
    /// XFRM_MSG_REPORT.
    pub const REPORT: u16 = 0x20;
    /// XFRM_MSG_MIGRATE.
    pub const MIGRATE: u16 = 0x21;
    /// XFRM_MSG_NEWSADINFO.
    pub const NEWSADINFO: u16 = 0x22;
    /// XFRM_MSG_GETSADINFO.
    pub const GETSADINFO: u16 = 0x23;
    /// XFRM_MSG_NEWSPDINFO.
    pub const NEWSPDINFO: u16 = 0x24;
    /// XFRM_MSG_GETSPDINFO.
    pub const GETSPDINFO: u16 = 0x25;
    /// XFRM_MSG_MAPPING.
    pub const MAPPING: u16 = 0x26;
    /// XFRM_MSG_SETDEFAULT.
    pub const SETDEFAULT: u16 = 0x27;
    /// XFRM_MSG_GETDEFAULT.
    pub const GETDEFAULT: u16 = 0x28;
}

/// Bits of `nlmsg_flags`.
pub mod flag {
    /// NLM_F_REQUEST.
    pub const REQUEST: u16 = 1;
    /// NLM_F_MULTI: more messages follow, until DONE.
    pub const MULTI: u16 = 2;
    /// NLM_F_ACK: acknowledge success, too.
    pub const ACK: u16 = 4;
    /// NLM_F_DUMP: return all entries. The request must set both bits.
    pub const DUMP: u16 = 0x300;
    /// NLM_F_REPLACE, of NEWAE.
    pub const REPLACE: u16 = 0x100;
    /// NLM_F_CAPPED: an acknowledgement contains only the request's header.
    pub const CAPPED: u16 = 0x100;
    /// NLM_F_ACK_TLVS: an acknowledgement ends with attributes.
    pub const ACK_TLVS: u16 = 0x200;
}

/// NLMSGERR_ATTR_MSG: an attribute of an acknowledgement. It describes the error, as a string that ends in NUL.
pub const ERROR_TEXT: u16 = 1;

/// Numbers of attributes. NEWSADINFO and NEWSPDINFO have attributes of their own, with numbers from 1.
pub mod attribute {
    /// XFRMA_ALG_AUTH.
    pub const ALG_AUTH: u16 = 1;
    /// XFRMA_ALG_CRYPT.
    pub const ALG_CRYPT: u16 = 2;
    /// XFRMA_ALG_COMP.
    pub const ALG_COMP: u16 = 3;
    /// XFRMA_ENCAP.
    pub const ENCAP: u16 = 4;
    /// XFRMA_TMPL.
    pub const TMPL: u16 = 5;
    /// XFRMA_SA.
    pub const SA: u16 = 6;
    /// XFRMA_POLICY.
    pub const POLICY: u16 = 7;
    /// XFRMA_LTIME_VAL.
    pub const LTIME_VAL: u16 = 9;
    /// XFRMA_REPLAY_VAL.
    pub const REPLAY_VAL: u16 = 10;
    /// XFRMA_REPLAY_THRESH.
    pub const REPLAY_THRESH: u16 = 11;
    /// XFRMA_ETIMER_THRESH.
    pub const ETIMER_THRESH: u16 = 12;
    /// XFRMA_SRCADDR.
    pub const SRCADDR: u16 = 13;
    /// XFRMA_COADDR.
    pub const COADDR: u16 = 14;
    /// XFRMA_LASTUSED.
    pub const LASTUSED: u16 = 15;
    /// XFRMA_POLICY_TYPE.
    pub const POLICY_TYPE: u16 = 16;
    /// XFRMA_ALG_AEAD.
    pub const ALG_AEAD: u16 = 18;
    /// XFRMA_ALG_AUTH_TRUNC.
    pub const ALG_AUTH_TRUNC: u16 = 20;
    /// XFRMA_MARK.
    pub const MARK: u16 = 21;
    /// XFRMA_TFCPAD.
    pub const TFCPAD: u16 = 22;
    /// XFRMA_REPLAY_ESN_VAL.
    pub const REPLAY_ESN_VAL: u16 = 23;
    /// XFRMA_SA_EXTRA_FLAGS.
    pub const SA_EXTRA_FLAGS: u16 = 24;
    /// XFRMA_PROTO.
    pub const PROTO: u16 = 25;
    /// XFRMA_ADDRESS_FILTER.
    pub const ADDRESS_FILTER: u16 = 26;
    /// XFRMA_PAD: aligns the next attribute, and is empty.
    pub const PAD: u16 = 27;
    /// XFRMA_OFFLOAD_DEV.
    pub const OFFLOAD_DEV: u16 = 28;
    /// XFRMA_SET_MARK.
    pub const SET_MARK: u16 = 29;
    /// XFRMA_SET_MARK_MASK.
    pub const SET_MARK_MASK: u16 = 30;
    /// XFRMA_IF_ID.
    pub const IF_ID: u16 = 31;
    /// XFRMA_MTIMER_THRESH.
    pub const MTIMER_THRESH: u16 = 32;
    /// XFRMA_SA_DIR, since Linux 6.10.
    pub const SA_DIR: u16 = 33;
    /// XFRMA_SAD_CNT, of NEWSADINFO.
    pub const SAD_CNT: u16 = 1;
    /// XFRMA_SAD_HINFO, of NEWSADINFO.
    pub const SAD_HINFO: u16 = 2;
    /// XFRMA_SPD_INFO, of NEWSPDINFO.
    pub const SPD_INFO: u16 = 1;
    /// XFRMA_SPD_HINFO, of NEWSPDINFO.
    pub const SPD_HINFO: u16 = 2;
    /// XFRMA_SPD_IPV4_HTHRESH, of NEWSPDINFO.
    pub const SPD_IPV4_HTHRESH: u16 = 3;
    /// XFRMA_SPD_IPV6_HTHRESH, of NEWSPDINFO.
    pub const SPD_IPV6_HTHRESH: u16 = 4;
}

/// Groups of notifications, `enum xfrm_nlgroups`. The bit of group n in `nl_groups` is n - 1.
pub mod group {
    /// XFRMNLGRP_ACQUIRE.
    pub const ACQUIRE: u32 = 1;
    /// XFRMNLGRP_EXPIRE.
    pub const EXPIRE: u32 = 2;
    /// XFRMNLGRP_SA.
    pub const SA: u32 = 3;
    /// XFRMNLGRP_POLICY.
    pub const POLICY: u32 = 4;
    /// XFRMNLGRP_AEVENTS.
    pub const AEVENTS: u32 = 5;
    /// XFRMNLGRP_REPORT.
    pub const REPORT: u32 = 6;
    /// XFRMNLGRP_MIGRATE.
    pub const MIGRATE: u32 = 7;
    /// XFRMNLGRP_MAPPING.
    pub const MAPPING: u32 = 8;
}

/// Bits of the flags of an SA, `XFRM_STATE_*`.
pub mod state {
    /// Do not copy ECN from the outer header to the inner one.
    pub const NOECN: u8 = 1;
    /// Copy DSCP from the outer header to the inner one.
    pub const DECAP_DSCP: u8 = 2;
    /// No path MTU discovery: DF is not set.
    pub const NOPMTUDISC: u8 = 4;
    /// Any source address matches.
    pub const WILDRECV: u8 = 8;
    /// Let the payload of ICMP errors match.
    pub const ICMP: u8 = 16;
    /// The selector's family is independent of the SA's.
    pub const AF_UNSPEC: u8 = 32;
    /// Align to 4 bytes instead of the required 8 (AH over IPv6).
    pub const ALIGN4: u8 = 64;
    /// 64-bit sequence numbers.
    pub const ESN: u8 = 128;
}

/// Bits of XFRMA_SA_EXTRA_FLAGS, `XFRM_SA_XFLAG_*`.
pub mod extra {
    /// Do not copy DSCP from the inner header to the outer one.
    pub const DONT_ENCAP_DSCP: u32 = 1;
    /// The sequence number of outgoing packets may wrap.
    pub const OSEQ_MAY_WRAP: u32 = 2;
}

/// Bits of the flags of a policy.
pub mod policy {
    /// XFRM_POLICY_LOCALOK: a socket may override the policy.
    pub const LOCALOK: u8 = 1;
    /// XFRM_POLICY_ICMP: payloads of ICMP errors match, too.
    pub const ICMP: u8 = 2;
}

/// Bits of [`AsyncEvent::flags`](crate::AsyncEvent::flags), `XFRM_AE_*`.
pub mod aevent {
    /// Replay threshold.
    pub const RTHR: u32 = 1;
    /// Replay value.
    pub const RVAL: u32 = 2;
    /// Lifetime value.
    pub const LVAL: u32 = 4;
    /// Expiry timer threshold.
    pub const ETHR: u32 = 8;
    /// The replay state caused the event.
    pub const CR: u32 = 16;
    /// The timer caused the event.
    pub const CE: u32 = 32;
    /// An update caused the event.
    pub const CU: u32 = 64;
}

/// UDP_ENCAP_ESPINUDP of `linux/udp.h`: ESP in UDP (RFC 3948).
pub const ENCAP_ESPINUDP: u16 = 2;

/// XFRM_INF: no limit on bytes or packets.
pub const NO_LIMIT: u64 = u64::MAX;

/// XFRM_MAX_DEPTH of `net/xfrm.h`: maximum number of templates of a policy.
pub const MAX_TEMPLATES: usize = 6;
