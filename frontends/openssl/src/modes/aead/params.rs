//! Parameters of a context: tags, TLS records, and nonces that the default provider assembles.

use super::{AeadState, NONCE_LEN, Phase};
use crate::abi;
use crate::libcrypto::{DefaultProviderCipherCtx, ParamQuery, ParamValues};
use crate::provider::WrappedAlgorithm;
use crate::table::Aead;

impl AeadState {
    /// Records parameters that the default provider has accepted.
    pub(crate) fn params_accepted(&mut self, default_ctx: &DefaultProviderCipherCtx, values: ParamValues<'_>) {
        if let Some(tag) = values.octets(c"tag") {
            self.set_tag(tag);
        }
        if let Some(header) = values.octets(c"tlsaad") {
            self.record_header = header.try_into().ok();
            if self.aead == Aead::ChaCha {
                // The default provider has the nonce of this record.
                self.phase = Phase::DefaultProvider;
            }
        }
        if let Some(fixed) = values.octets(c"tlsivfixed") {
            self.fixed_nonce = fixed.try_into().ok();
            self.default_ctx_has_fixed_nonce = true;
            if self.aead == Aead::ChaCha {
                // The new nonce replaces the nonce of the record whose header the default provider has.
                self.record_header = None;
            }
        }
        if let Some(length) = values.number(c"ivlen") {
            self.iv_len = length;
        }
        // With another nonce length, or a nonce that the default provider increments, our copy of the nonce is stale.
        let is_other_nonce_len = values.number(c"ivlen").is_some_and(|length| length != NONCE_LEN);
        let default_ctx_increments_nonce =
            self.aead == Aead::Gcm && (values.has(c"tlsivfixed") || values.has(c"tlsivinv"));
        let has_begun = self.phase == Phase::Begun;
        if default_ctx_increments_nonce || (has_begun && (is_other_nonce_len || values.has(c"tlsivfixed"))) {
            self.phase = Phase::DefaultProvider;
        } else if is_other_nonce_len && self.aead == Aead::Gcm && self.phase == Phase::Device {
            // The nonce is gone; the message cannot continue without one (CVE-2023-5363).
            self.phase = Phase::Broken;
        }
        // SSH, opening: the nonce was just assembled from its two parts.
        if values.has(c"tlsivinv")
            && let Some(iv) = default_ctx.octets(c"iv")
        {
            self.iv = iv;
            self.begin_message();
        }
    }

    /// Answers a parameter query, through the default provider where it knows the answer.
    pub(crate) fn query_params(
        &mut self,
        wrapped: &WrappedAlgorithm,
        default_ctx: &DefaultProviderCipherCtx,
        mut query: ParamQuery<'_>,
    ) -> i32 {
        // SSH: the default provider increments the nonce; the message uses the previous value.
        if query.has(c"tlsivgen") {
            let iv = default_ctx.octets(c"iv");
            let result = default_ctx.query_params(query);
            self.phase = Phase::DefaultProvider;
            if let (Some(iv), 1) = (iv, result) {
                self.iv = iv;
                self.begin_message();
            }
            return result;
        }
        if self.seal && self.phase == Phase::Broken && query.has(c"tag") {
            wrapped.raise(abi::PROV_R_INVALID_TAG);
            return 0;
        }
        match self.computed_tag() {
            Some(tag) => query.answer(c"tag", tag, |others| default_ctx.query_params(others)),
            // The default provider has no tag of an unfinished message, and none when opening: it refuses the query with an error.
            None => default_ctx.query_params(query),
        }
    }
}
