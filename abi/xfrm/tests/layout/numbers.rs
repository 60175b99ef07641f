//! Numbers of the headers.

use gantry_abi_xfrm::constants::*;
use gantry_abi_xfrm::*;

use crate::{compile, compile_since};

#[test]
fn numbers_match_the_headers() {
    let numbers: Vec<(&str, u64)> = [MESSAGES, ATTRIBUTES, OTHERS].concat();
    let checks = numbers.iter().map(|(name, number)| format!("({name}) == {number}ull"));
    compile(checks.collect(), &[]);
    // Headers before Linux 6.10 lack these numbers.
    let checks = LATER.iter().map(|(name, number)| format!("({name}) == {number}ull"));
    compile_since(6, 10, checks.collect());
}

#[test]
fn the_check_detects_a_wrong_number() {
    let found = std::panic::catch_unwind(|| compile(vec!["XFRM_MSG_NEWSA == 0x11".to_owned()], &[]));
    assert!(found.is_err());
}

const MESSAGES: &[(&str, u64)] = &[
    ("NLMSG_NOOP", message::NOOP as u64),
    ("NLMSG_ERROR", message::ERROR as u64),
    ("NLMSG_DONE", message::DONE as u64),
    ("XFRM_MSG_NEWSA", message::NEWSA as u64),
    ("XFRM_MSG_DELSA", message::DELSA as u64),
    ("XFRM_MSG_GETSA", message::GETSA as u64),
    ("XFRM_MSG_NEWPOLICY", message::NEWPOLICY as u64),
    ("XFRM_MSG_DELPOLICY", message::DELPOLICY as u64),
    ("XFRM_MSG_GETPOLICY", message::GETPOLICY as u64),
    ("XFRM_MSG_ALLOCSPI", message::ALLOCSPI as u64),
    ("XFRM_MSG_ACQUIRE", message::ACQUIRE as u64),
    ("XFRM_MSG_EXPIRE", message::EXPIRE as u64),
    ("XFRM_MSG_UPDPOLICY", message::UPDPOLICY as u64),
    ("XFRM_MSG_UPDSA", message::UPDSA as u64),
    ("XFRM_MSG_POLEXPIRE", message::POLEXPIRE as u64),
    ("XFRM_MSG_FLUSHSA", message::FLUSHSA as u64),
    ("XFRM_MSG_FLUSHPOLICY", message::FLUSHPOLICY as u64),
    ("XFRM_MSG_NEWAE", message::NEWAE as u64),
    ("XFRM_MSG_GETAE", message::GETAE as u64),
    ("XFRM_MSG_REPORT", message::REPORT as u64),
    ("XFRM_MSG_MIGRATE", message::MIGRATE as u64),
    ("XFRM_MSG_NEWSADINFO", message::NEWSADINFO as u64),
    ("XFRM_MSG_GETSADINFO", message::GETSADINFO as u64),
    ("XFRM_MSG_NEWSPDINFO", message::NEWSPDINFO as u64),
    ("XFRM_MSG_GETSPDINFO", message::GETSPDINFO as u64),
    ("XFRM_MSG_MAPPING", message::MAPPING as u64),
    ("XFRM_MSG_SETDEFAULT", message::SETDEFAULT as u64),
    ("XFRM_MSG_GETDEFAULT", message::GETDEFAULT as u64),
];

const ATTRIBUTES: &[(&str, u64)] = &[
    ("XFRMA_ALG_AUTH", attribute::ALG_AUTH as u64),
    ("XFRMA_ALG_CRYPT", attribute::ALG_CRYPT as u64),
    ("XFRMA_ALG_COMP", attribute::ALG_COMP as u64),
    ("XFRMA_ENCAP", attribute::ENCAP as u64),
    ("XFRMA_TMPL", attribute::TMPL as u64),
    ("XFRMA_SA", attribute::SA as u64),
    ("XFRMA_POLICY", attribute::POLICY as u64),
    ("XFRMA_LTIME_VAL", attribute::LTIME_VAL as u64),
    ("XFRMA_REPLAY_VAL", attribute::REPLAY_VAL as u64),
    ("XFRMA_REPLAY_THRESH", attribute::REPLAY_THRESH as u64),
    ("XFRMA_ETIMER_THRESH", attribute::ETIMER_THRESH as u64),
    ("XFRMA_SRCADDR", attribute::SRCADDR as u64),
    ("XFRMA_COADDR", attribute::COADDR as u64),
    ("XFRMA_LASTUSED", attribute::LASTUSED as u64),
    ("XFRMA_POLICY_TYPE", attribute::POLICY_TYPE as u64),
    ("XFRMA_ALG_AEAD", attribute::ALG_AEAD as u64),
    ("XFRMA_ALG_AUTH_TRUNC", attribute::ALG_AUTH_TRUNC as u64),
    ("XFRMA_MARK", attribute::MARK as u64),
    ("XFRMA_TFCPAD", attribute::TFCPAD as u64),
    ("XFRMA_REPLAY_ESN_VAL", attribute::REPLAY_ESN_VAL as u64),
    ("XFRMA_SA_EXTRA_FLAGS", attribute::SA_EXTRA_FLAGS as u64),
    ("XFRMA_PROTO", attribute::PROTO as u64),
    ("XFRMA_ADDRESS_FILTER", attribute::ADDRESS_FILTER as u64),
    ("XFRMA_PAD", attribute::PAD as u64),
    ("XFRMA_OFFLOAD_DEV", attribute::OFFLOAD_DEV as u64),
    ("XFRMA_SET_MARK", attribute::SET_MARK as u64),
    ("XFRMA_SET_MARK_MASK", attribute::SET_MARK_MASK as u64),
    ("XFRMA_IF_ID", attribute::IF_ID as u64),
    ("XFRMA_MTIMER_THRESH", attribute::MTIMER_THRESH as u64),
    ("XFRMA_SAD_CNT", attribute::SAD_CNT as u64),
    ("XFRMA_SAD_HINFO", attribute::SAD_HINFO as u64),
    ("XFRMA_SPD_INFO", attribute::SPD_INFO as u64),
    ("XFRMA_SPD_HINFO", attribute::SPD_HINFO as u64),
    ("XFRMA_SPD_IPV4_HTHRESH", attribute::SPD_IPV4_HTHRESH as u64),
    ("XFRMA_SPD_IPV6_HTHRESH", attribute::SPD_IPV6_HTHRESH as u64),
];

const LATER: &[(&str, u64)] = &[("XFRMA_SA_DIR", attribute::SA_DIR as u64)];

const OTHERS: &[(&str, u64)] = &[
    ("NLM_F_REQUEST", flag::REQUEST as u64),
    ("NLM_F_MULTI", flag::MULTI as u64),
    ("NLM_F_ACK", flag::ACK as u64),
    ("NLM_F_DUMP", flag::DUMP as u64),
    ("NLM_F_REPLACE", flag::REPLACE as u64),
    ("NLM_F_CAPPED", flag::CAPPED as u64),
    ("NLM_F_ACK_TLVS", flag::ACK_TLVS as u64),
    ("NLMSGERR_ATTR_MSG", ERROR_TEXT as u64),
    ("XFRMNLGRP_ACQUIRE", group::ACQUIRE as u64),
    ("XFRMNLGRP_EXPIRE", group::EXPIRE as u64),
    ("XFRMNLGRP_SA", group::SA as u64),
    ("XFRMNLGRP_POLICY", group::POLICY as u64),
    ("XFRMNLGRP_AEVENTS", group::AEVENTS as u64),
    ("XFRMNLGRP_REPORT", group::REPORT as u64),
    ("XFRMNLGRP_MIGRATE", group::MIGRATE as u64),
    ("XFRMNLGRP_MAPPING", group::MAPPING as u64),
    ("XFRM_STATE_NOECN", state::NOECN as u64),
    ("XFRM_STATE_DECAP_DSCP", state::DECAP_DSCP as u64),
    ("XFRM_STATE_NOPMTUDISC", state::NOPMTUDISC as u64),
    ("XFRM_STATE_WILDRECV", state::WILDRECV as u64),
    ("XFRM_STATE_ICMP", state::ICMP as u64),
    ("XFRM_STATE_AF_UNSPEC", state::AF_UNSPEC as u64),
    ("XFRM_STATE_ALIGN4", state::ALIGN4 as u64),
    ("XFRM_STATE_ESN", state::ESN as u64),
    ("XFRM_SA_XFLAG_DONT_ENCAP_DSCP", extra::DONT_ENCAP_DSCP as u64),
    ("XFRM_SA_XFLAG_OSEQ_MAY_WRAP", extra::OSEQ_MAY_WRAP as u64),
    ("XFRM_POLICY_LOCALOK", policy::LOCALOK as u64),
    ("XFRM_POLICY_ICMP", policy::ICMP as u64),
    ("XFRM_AE_RTHR", aevent::RTHR as u64),
    ("XFRM_AE_RVAL", aevent::RVAL as u64),
    ("XFRM_AE_LVAL", aevent::LVAL as u64),
    ("XFRM_AE_ETHR", aevent::ETHR as u64),
    ("XFRM_AE_CR", aevent::CR as u64),
    ("XFRM_AE_CE", aevent::CE as u64),
    ("XFRM_AE_CU", aevent::CU as u64),
    ("UDP_ENCAP_ESPINUDP", ENCAP_ESPINUDP as u64),
    ("XFRM_INF", NO_LIMIT),
    ("XFRMA_REPLAY_ESN_MAX / 4 / 8", ReplayEsn::MAX_BITMAP_WORDS as u64),
    ("XFRM_MODE_TRANSPORT", 0),
    ("XFRM_MODE_TUNNEL", 1),
    ("XFRM_MODE_BEET", 4),
    ("XFRM_POLICY_IN", Direction::In as u64),
    ("XFRM_POLICY_OUT", Direction::Out as u64),
    ("XFRM_POLICY_FWD", Direction::Forward as u64),
    ("XFRM_POLICY_ALLOW", Action::Allow as u64),
    ("XFRM_POLICY_BLOCK", Action::Block as u64),
    ("XFRM_USERPOLICY_UNSPEC", 0),
    ("XFRM_USERPOLICY_BLOCK", 1),
    ("XFRM_USERPOLICY_ACCEPT", 2),
    ("AF_INET", 2),
    ("AF_INET6", 10),
    ("EINVAL", 22),
    ("ENOPROTOOPT", 92),
];
