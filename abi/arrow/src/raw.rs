//! The structures of Arrow's C data interface. On drop, each calls its `release`, unless it is already released.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

macro_rules! structure {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)+ }) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Debug)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)+
            /// Frees the contents and sets `release` to `None`. The field is `None` in a structure that is released, or whose contents
            /// were moved to another one.
            pub release: Option<unsafe extern "C" fn(*mut $name)>,
            /// Private data of the producer.
            pub private_data: *mut c_void,
        }

        impl $name {
            /// Moves the structure out of the producer's memory, and marks the original as released.
            ///
            /// # Safety
            /// `source` points to an initialized structure, and nothing else uses it during the call.
            pub unsafe fn take(source: *mut Self) -> Self {
                // SAFETY: guaranteed by the caller. The structure has one owner, because `source` is marked as released.
                unsafe {
                    let taken = source.read();
                    (*source).release = None;
                    taken
                }
            }

            /// Returns true if the structure is released.
            pub fn is_released(&self) -> bool {
                self.release.is_none()
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                if let Some(release) = self.release {
                    // SAFETY: the structure is complete, is not released, and is not used afterwards.
                    unsafe { release(self) };
                }
            }
        }

        // SAFETY: by the interface, any thread may use and release a structure, one thread at a time.
        unsafe impl Send for $name {}
    };
}

structure! {
    /// `struct ArrowSchema`: the type of an array.
    ArrowSchema {
        /// The format string, which ends in 0.
        format: *const c_char,
        /// The name of the field, or null.
        name: *const c_char,
        /// Keys and values, or null.
        metadata: *const c_char,
        /// Bits `ARROW_FLAG_*`.
        flags: i64,
        /// The number of children.
        n_children: i64,
        /// The types of children.
        children: *mut *mut ArrowSchema,
        /// The type of a dictionary's values, or null.
        dictionary: *mut ArrowSchema,
    }
}

structure! {
    /// `struct ArrowArray`: the values of an array.
    ArrowArray {
        /// The number of values.
        length: i64,
        /// The number of null values; -1 if unknown.
        null_count: i64,
        /// The number of values in the buffers before the first value of the array.
        offset: i64,
        /// The number of buffers.
        n_buffers: i64,
        /// The number of children.
        n_children: i64,
        /// The buffers.
        buffers: *mut *const c_void,
        /// The arrays of children.
        children: *mut *mut ArrowArray,
        /// The values of a dictionary, or null.
        dictionary: *mut ArrowArray,
    }
}

structure! {
    /// `struct ArrowArrayStream`: a sequence of arrays of the same type.
    ArrowArrayStream {
        /// Writes the type. Returns 0 or an errno.
        get_schema: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int>,
        /// Writes the next array, or a released one at the end of the stream. Returns 0 or an errno.
        get_next: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int>,
        /// Returns a description of the last error, or null. The description is valid until the next call.
        get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    }
}

/// `ARROW_FLAG_NULLABLE`.
pub const FLAG_NULLABLE: i64 = 2;

impl ArrowSchema {
    /// Returns a released structure, which a producer can overwrite.
    pub const fn released() -> Self {
        Self {
            format: ptr::null(),
            name: ptr::null(),
            metadata: ptr::null(),
            flags: 0,
            n_children: 0,
            children: ptr::null_mut(),
            dictionary: ptr::null_mut(),
            release: None,
            private_data: ptr::null_mut(),
        }
    }
}

impl ArrowArray {
    /// Returns a released structure, which a producer can overwrite.
    pub const fn released() -> Self {
        Self {
            length: 0,
            null_count: 0,
            offset: 0,
            n_buffers: 0,
            n_children: 0,
            buffers: ptr::null_mut(),
            children: ptr::null_mut(),
            dictionary: ptr::null_mut(),
            release: None,
            private_data: ptr::null_mut(),
        }
    }
}
