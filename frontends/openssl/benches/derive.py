#!/usr/bin/env python3
"""Measures the CPU time of one iteration of PBKDF2-HMAC-SHA256 through PKCS5_PBKDF2_HMAC, in nanoseconds:

    derive.py LIBCRYPTO [CONFIGURATION]

One caller: keys of 32 and of 128 bytes, the best of 40 runs of 20,000 iterations. Eight threads: keys of 32 bytes; the process's CPU
time per iteration, and the elapsed time. LIBCRYPTO is the path of a libcrypto.so; without a CONFIGURATION, its default provider derives.
"""

import ctypes
import sys
import threading
import time

ITERATIONS, THREADS, KEYS = 20_000, 8, 20

libcrypto = ctypes.CDLL(sys.argv[1])
if len(sys.argv) > 2:
    assert libcrypto.OSSL_LIB_CTX_load_config(None, sys.argv[2].encode()) == 1, "the configuration"
libcrypto.EVP_get_digestbyname.restype = ctypes.c_void_p
text, number, place = ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p
libcrypto.PKCS5_PBKDF2_HMAC.argtypes = [text, number, text, number, number, place, number, text]
sha256 = libcrypto.EVP_get_digestbyname(b"SHA256")


def derive(length, iterations=ITERATIONS):
    key = ctypes.create_string_buffer(length)
    done = libcrypto.PKCS5_PBKDF2_HMAC(b"a password", 10, b"a salt of 16 byt", 16, iterations, sha256, length, key)
    assert done == 1, "no key"


def took(length):
    begun = time.thread_time()
    derive(length)
    return time.thread_time() - begun


derive(32, 1)
for length in (32, 128):
    print(f"one caller, {length} bytes: {min(took(length) for _ in range(40)) / ITERATIONS * 1e9:.1f} ns")

begun, cpu = time.monotonic(), time.process_time()
threads = [threading.Thread(target=lambda: [derive(32, 10 * ITERATIONS) for _ in range(KEYS // 10)]) for _ in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
each = (time.process_time() - cpu) / THREADS / KEYS / ITERATIONS * 1e9
print(f"{THREADS} threads, 32 bytes: {each:.1f} ns, {time.monotonic() - begun:.2f} s")
