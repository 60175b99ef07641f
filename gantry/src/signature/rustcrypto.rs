use gantry_core::Error::Refused;
use signature::{Error, SignatureEncoding};

use super::{SignatureBytes, Signer, Verifier};

impl SignatureEncoding for SignatureBytes {
    type Repr = Vec<u8>;
}

/// Makes any signature type that parses the standard encoding: [`SignatureBytes`], or a type of another crate.
impl<S: SignatureEncoding> signature::Signer<S> for Signer {
    fn try_sign(&self, message: &[u8]) -> Result<S, Error> {
        let signature = self.sign(message).map_err(Error::from_source)?;
        S::try_from(&signature).map_err(|_| Error::new())
    }
}

/// Verifies any signature type that writes the standard encoding.
impl<S: SignatureEncoding> signature::Verifier<S> for Verifier {
    fn verify(&self, message: &[u8], signature: &S) -> Result<(), Error> {
        self.verify(message, signature.to_bytes().as_ref()).map_err(|error| match error {
            // The crate `signature` requires that the error for a wrong signature has no cause.
            Refused(_) => Error::new(),
            other => Error::from_source(other),
        })
    }
}
