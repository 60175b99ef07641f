//! TurboSHAKE and KT128 by RustCrypto, because AWS-LC has none.

use std::marker::PhantomData;
use std::sync::Arc;

use gantry_core::driver::{DeviceSession, DigestStream, Operands, Unsupported};
use gantry_core::{Fault, Operation, Outcome, SessionParams};
use turboshake::digest::{ExtendableOutputReset, Update};

use crate::session::{SessionResult, unsupported_operation};

/// The state of one of the functions. The `zeroize` features of both crates overwrite it when it is dropped.
pub(crate) trait XofFunction: Update + ExtendableOutputReset + Default + Clone + Send + Sync + 'static {}

impl<T: Update + ExtendableOutputReset + Default + Clone + Send + Sync + 'static> XofFunction for T {}

#[allow(clippy::unnecessary_wraps, reason = "the table of the device needs this signature")]
pub(crate) fn open<F: XofFunction>(_: &SessionParams) -> SessionResult {
    Ok(Arc::new(TurboSession::<F>(PhantomData)))
}

struct TurboSession<F>(PhantomData<F>);

impl<F: XofFunction> DeviceSession for TurboSession<F> {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        let Operands::Digest { input, output } = operands else { return unsupported_operation() };
        let mut state = F::default();
        state.update(input);
        state.finalize_xof_into(output);
        Ok(Outcome::Done)
    }

    fn digest_stream(&self) -> Result<Box<dyn DigestStream>, Unsupported> {
        Ok(Box::new(TurboStream(F::default())))
    }
}

struct TurboStream<F>(F);

impl<F: XofFunction> DigestStream for TurboStream<F> {
    fn operation(&self) -> Operation {
        Operation::Digest
    }

    fn update(&mut self, input: &[u8]) -> Result<(), Fault> {
        self.0.update(input);
        Ok(())
    }

    fn finish(&mut self, output: &mut [u8]) -> Result<(), Fault> {
        self.0.finalize_xof_reset_into(output);
        Ok(())
    }

    fn duplicate(&self) -> Box<dyn DigestStream> {
        Box::new(TurboStream(self.0.clone()))
    }
}
