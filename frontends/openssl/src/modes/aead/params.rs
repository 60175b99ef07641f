//! Parameters of a context: tags, TLS records, and nonces that the host assembles.

use super::{AeadState, NONCE, Phase};
use crate::abi;
use crate::host::{Host, ParamQuery, ParamValues};
use crate::provider::Wrapped;
use crate::table::Aead;

impl AeadState {
    /// Records parameters that the host has accepted.
    pub(crate) fn params_accepted(&mut self, host: &Host, values: ParamValues<'_>) {
        if let Some(tag) = values.octets(c"tag") {
            self.set_tag(tag);
        }
        if let Some(header) = values.octets(c"tlsaad") {
            self.header = header.try_into().ok();
            if self.aead == Aead::ChaCha {
                // The host has the nonce of this record.
                self.phase = Phase::Host;
            }
        }
        if let Some(fixed) = values.octets(c"tlsivfixed") {
            self.fixed = fixed.try_into().ok();
            self.has_fixed = true;
            if self.aead == Aead::ChaCha {
                // The new nonce replaces the nonce of the record whose header the host has.
                self.header = None;
            }
        }
        if let Some(length) = values.number(c"ivlen") {
            self.iv_len = length;
        }
        // With another nonce length, or a nonce that the host increments, our copy of the nonce is stale.
        let is_other = values.number(c"ivlen").is_some_and(|length| length != NONCE);
        let is_counted = self.aead == Aead::Gcm && (values.has(c"tlsivfixed") || values.has(c"tlsivinv"));
        let is_begun = self.phase == Phase::Begun;
        if is_counted || (is_begun && (is_other || values.has(c"tlsivfixed"))) {
            self.phase = Phase::Host;
        } else if is_other && self.aead == Aead::Gcm && self.phase == Phase::Device {
            // The nonce is gone; the message cannot continue without one (CVE-2023-5363).
            self.phase = Phase::Broken;
        }
        // SSH, opening: the nonce was just assembled from its two parts.
        if values.has(c"tlsivinv")
            && let Some(iv) = host.octets(c"iv")
        {
            self.iv = iv;
            self.begin();
        }
    }

    /// Answers a parameter query, through the host where the host knows the answer.
    pub(crate) fn query_params(&mut self, wrapped: &Wrapped, host: &Host, mut query: ParamQuery<'_>) -> i32 {
        // SSH: the host increments the nonce; the message uses the previous value.
        if query.has(c"tlsivgen") {
            let iv = host.octets(c"iv");
            let result = host.query_params(query);
            self.phase = Phase::Host;
            if let (Some(iv), 1) = (iv, result) {
                self.iv = iv;
                self.begin();
            }
            return result;
        }
        if self.seal && self.phase == Phase::Broken && query.has(c"tag") {
            wrapped.raise(abi::PROV_R_INVALID_TAG);
            return 0;
        }
        match self.computed_tag() {
            Some(tag) => query.answer(c"tag", tag, |others| host.query_params(others)),
            // The host has no tag of an unfinished message, and none when opening: it refuses the query with an error.
            None => host.query_params(query),
        }
    }
}
