//! The share of a peer in a hybrid TLS group that the default provider also has. It sees the share only if a call needs it: reading a share
//! there takes longer than our whole agreement.

use std::ffi::c_void;
use std::sync::Once;

use crate::abi::Param;
use crate::groups::Group;
use crate::libcrypto::functions::KeyFns;
use crate::libcrypto::params;
use crate::modes::group::GroupKey;
use crate::provider::Provider;

pub(super) struct PeerShare {
    key: GroupKey,
    /// Completed once the default provider has seen the share.
    passed_on: Once,
}

impl PeerShare {
    /// Reads a share. Returns `None` if we refuse it: the default provider then decides, and leaves its own error.
    pub(super) fn new(provider: &Provider, group: &'static Group, share: &[u8]) -> Option<Self> {
        let key = GroupKey::new(group);
        let is_set = provider.default_provider.discarding_errors(|| key.set_peer(provider, share).is_ok());
        is_set.then_some(Self { key, passed_on: Once::new() })
    }

    /// Returns the share, unless the default provider has seen it.
    pub(super) fn unseen(&self) -> Option<&GroupKey> {
        (!self.passed_on.is_completed()).then_some(&self.key)
    }

    /// Sets the share in the default provider's empty key, unless that is done.
    pub(super) fn pass_on(&self, functions: &KeyFns, default_key: *mut c_void) {
        self.passed_on.call_once(|| {
            let Some((set_params, share)) = functions.set_params.zip(self.key.public()) else { return };
            let share = Param::octets(c"encoded-pub-key", share.as_ptr().cast_mut().cast(), share.len());
            // SAFETY: the default provider, with its own key and a terminated table. If it refuses the share, the key stays empty.
            let _ = unsafe { set_params(default_key, [share, params::end()].as_ptr()) };
        });
    }
}
