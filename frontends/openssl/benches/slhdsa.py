#!/usr/bin/env python3
"""Milliseconds of CPU time of SLH-DSA by EVP: a key, a signature and a verification, the best of seven.

    slhdsa.py LIBCRYPTO [CONFIGURATION]

LIBCRYPTO is the path of a libcrypto.so of OpenSSL 3.5 or later; without a CONFIGURATION, its default provider does everything.
"""

import ctypes
import sys
import time

SETS = ["SLH-DSA-SHA2-128s", "SLH-DSA-SHA2-128f", "SLH-DSA-SHAKE-128s"]
ROUNDS, MESSAGE = 7, b"a message of 32 bytes, no more.."

libcrypto = ctypes.CDLL(sys.argv[1])
if len(sys.argv) > 2:
    assert libcrypto.OSSL_LIB_CTX_load_config(None, sys.argv[2].encode()) == 1, "the configuration"
place, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
for name, arguments in {
    "EVP_PKEY_Q_keygen": [place, text, text],
    "EVP_MD_CTX_new": [],
    "EVP_MD_CTX_free": [place],
    "EVP_DigestSignInit_ex": [place, place, text, place, text, place, place],
    "EVP_DigestVerifyInit_ex": [place, place, text, place, text, place, place],
    "EVP_DigestSign": [place, place, ctypes.POINTER(size), text, size],
    "EVP_DigestVerify": [place, text, size, text, size],
}.items():
    getattr(libcrypto, name).argtypes = arguments
libcrypto.EVP_PKEY_Q_keygen.restype = libcrypto.EVP_MD_CTX_new.restype = place


def best(work):
    def took():
        begun = time.thread_time()
        work()
        return (time.thread_time() - begun) * 1e3

    return min(took() for _ in range(ROUNDS))


def once(init, work):
    context = libcrypto.EVP_MD_CTX_new()
    assert init(context, None, None, None, None, key, None) == 1 and work(context) == 1, "a signature"
    libcrypto.EVP_MD_CTX_free(context)


for name in SETS:
    key = libcrypto.EVP_PKEY_Q_keygen(None, None, name.encode())
    made = ctypes.create_string_buffer(50_000)
    written = size(len(made))

    def sign():
        written.value = len(made)
        once(libcrypto.EVP_DigestSignInit_ex, lambda c: libcrypto.EVP_DigestSign(c, made, ctypes.byref(written), MESSAGE, 32))

    def verify():
        once(libcrypto.EVP_DigestVerifyInit_ex, lambda c: libcrypto.EVP_DigestVerify(c, made.raw, written.value, MESSAGE, 32))

    keys = best(lambda: libcrypto.EVP_PKEY_Q_keygen(None, None, name.encode()))
    signing = best(sign)
    # A device gets verifications when a process has asked for some hundred.
    [verify() for _ in range(256)]
    print(f"{name}: {keys:.2f}, {signing:.2f}, {best(verify):.3f} ms", flush=True)
