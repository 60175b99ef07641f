//! The structures of the C data interface. Each releases what it owns when it is dropped, unless it was moved away.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

macro_rules! structure {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)+ }) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Debug)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)+
            /// Frees everything else and sets itself to `None`; `None` if that is done, or somebody else's to do.
            pub release: Option<unsafe extern "C" fn(*mut $name)>,
            /// The producer's own.
            pub private_data: *mut c_void,
        }

        impl $name {
            /// Takes the structure out of the producer's memory and leaves a released one there.
            ///
            /// # Safety
            /// `place` points at an initialized structure, and nobody else uses it during the call.
            pub unsafe fn take(place: *mut Self) -> Self {
                // SAFETY: the call. What is read here has one owner, because the place is marked as released.
                unsafe {
                    let taken = place.read();
                    (*place).release = None;
                    taken
                }
            }

            /// Whether there is nothing to be released any more.
            pub fn is_released(&self) -> bool {
                self.release.is_none()
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                if let Some(release) = self.release {
                    // SAFETY: the structure is whole, has not been released, and is not used after this.
                    unsafe { release(self) };
                }
            }
        }

        // SAFETY: the interface says that a structure may be used and released by any thread, by one at a time.
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
        /// How many children there are.
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
        /// How many values there are.
        length: i64,
        /// How many of them are null; -1 if nobody counted.
        null_count: i64,
        /// Values of the buffers in front of the first.
        offset: i64,
        /// How many buffers there are.
        n_buffers: i64,
        /// How many children there are.
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
    /// `struct ArrowArrayStream`: arrays of one type, one after the other.
    ArrowArrayStream {
        /// Writes the type; 0 or an errno.
        get_schema: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int>,
        /// Writes the next array, a released one at the end; 0 or an errno.
        get_next: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int>,
        /// What the last error was, or null; until the next call.
        get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    }
}

/// `ARROW_FLAG_NULLABLE`.
pub const NULLABLE: i64 = 2;

impl ArrowSchema {
    /// A released structure, to be written over.
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
    /// A released structure, to be written over.
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
