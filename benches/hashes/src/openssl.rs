//! Digests of OpenSSL's `libcrypto`, which is loaded at run time.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};

use libloading::Library;

type Pointer = *mut c_void;

/// Pointers to the functions of `libcrypto` that this program calls (EVP_DigestInit(3)).
pub(crate) struct Openssl {
    version: extern "C" fn(c_int) -> *const c_char,
    fetch: extern "C" fn(Pointer, *const c_char, *const c_char) -> Pointer,
    new_context: extern "C" fn() -> Pointer,
    init: extern "C" fn(Pointer, Pointer, *const c_void) -> c_int,
    update: extern "C" fn(Pointer, *const u8, usize) -> c_int,
    finish: extern "C" fn(Pointer, *mut u8, *mut c_uint) -> c_int,
}

impl Openssl {
    /// Loads `libcrypto.so.3` from the dynamic linker's path. It stays loaded.
    pub(crate) fn load() -> Self {
        // SAFETY: the library's constructors have no conditions.
        let library: &'static Library =
            Box::leak(Box::new(unsafe { Library::new("libcrypto.so.3") }.expect("OpenSSL 3")));
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the types above are those of OpenSSL's headers.
                *unsafe { library.get($name) }.expect($name)
            };
        }
        Openssl {
            version: function!("OpenSSL_version"),
            fetch: function!("EVP_MD_fetch"),
            new_context: function!("EVP_MD_CTX_new"),
            init: function!("EVP_DigestInit_ex2"),
            update: function!("EVP_DigestUpdate"),
            finish: function!("EVP_DigestFinal_ex"),
        }
    }

    pub(crate) fn version(&self) -> &str {
        // SAFETY: OpenSSL returns a constant string.
        unsafe { CStr::from_ptr((self.version)(0)) }.to_str().expect("ASCII")
    }

    /// Returns work that hashes one message after the other, all with the same context and the same fetched algorithm.
    pub(crate) fn digest(&self, algorithm: &CStr) -> impl Fn(&[&[u8]], &mut [u8]) {
        let evp_md = (self.fetch)(null_mut(), algorithm.as_ptr(), null());
        let context = (self.new_context)();
        assert!(!evp_md.is_null() && !context.is_null(), "OpenSSL lacks {algorithm:?}");
        move |messages, output| {
            for (message, output) in messages.iter().zip(output.chunks_exact_mut(output.len() / messages.len())) {
                let good = (self.init)(context, evp_md, null()) == 1
                    && (self.update)(context, message.as_ptr(), message.len()) == 1
                    && (self.finish)(context, output.as_mut_ptr(), null_mut()) == 1;
                assert!(good, "OpenSSL refuses {} bytes", message.len());
            }
        }
    }
}
