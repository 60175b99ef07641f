# SLH-DSA with the `openssl` command, with and without gantry: each side gets the other's keys, signatures, certificates and signed mails.
#
#     OPENSSL=COMMAND OURS=CONFIGURATION CMS=OPTIONS sh -eu slhdsa.sh SET...
#
# Prints "the same", or the first difference.
with() { OPENSSL_CONF=$OURS "$OPENSSL" "$@" >>log 2>&1; }
without() { OPENSSL_CONF=/dev/null "$OPENSSL" "$@" >>log 2>&1; }
fail() {
    echo "$set: $*"
    tail -n 5 log
    exit 1
}
refused() { ! "$@"; }

sign() { # SIDE KEY OUT OPTION...
    side=$1 key=$2 out=$3
    shift 3
    $side pkeyutl -sign -inkey "$key.pem" -rawin -in message -out "$out" "$@" || fail "$side does not sign: $*"
}
verify() { # SIDE KEY SIGNATURE OPTION...
    side=$1 key=$2 signature=$3
    shift 3
    $side pkeyutl -verify -pubin -inkey "$key.pub" -rawin -in message -sigfile "$signature" "$@"
}

: >log
head -c 3000 /dev/urandom >message
echo "another message" >other
echo "basicConstraints = critical, CA:FALSE" >extensions
for set; do
    # As many hexadecimal digits as the seed of a signature.
    bits=${set##*-}
    entropy=$(printf "%0$((${bits%[sf]} / 4))d" 7)
    with genpkey -algorithm "$set" -out ours.pem || fail "a key with gantry"
    without genpkey -algorithm "$set" -out theirs.pem || fail "a key without"
    for key in ours theirs; do
        for form in "-pubout" "-pubout -outform DER" "-outform DER" "-text -noout"; do
            # shellcheck disable=SC2086 # options
            with pkey -in $key.pem $form -out a || fail "$form of $key with gantry"
            # shellcheck disable=SC2086
            without pkey -in $key.pem $form -out b || fail "$form of $key without"
            cmp a b || fail "$form of $key"
        done
        without pkey -in $key.pem -pubout -out $key.pub
        for options in "" "-pkeyopt context-string:Gantry" "-pkeyopt hexcontext-string:00ff"; do
            # shellcheck disable=SC2086
            {
                sign with $key a -pkeyopt deterministic:1 $options
                sign without $key b -pkeyopt deterministic:1 $options
                cmp a b || fail "signatures of $key differ: $options"
                sign with $key a $options
                sign without $key b $options
                if cmp -s a b; then fail "a signature is not hedged"; fi
                for side in with without; do
                    for signature in a b; do
                        verify $side $key $signature $options || fail "$side, $key, signature $signature, $options"
                        refused verify $side $key $signature -pkeyopt context-string:another || fail "another context, $side"
                    done
                done
            }
        done
        # Signature seeds and messages that are framed already are for tests: the default provider handles both.
        for options in "-pkeyopt hextest-entropy:$entropy" "-pkeyopt message-encoding:0 -pkeyopt deterministic:1"; do
            # shellcheck disable=SC2086
            {
                sign with $key a $options
                sign without $key b $options
            }
            cmp a b || fail "$options"
        done
    done
    sign with ours a
    refused verify with theirs a || fail "a wrong key, with gantry"
    size=$(stat -c %s a)
    for at in 0 $((size / 2)) $((size - 1)); do
        head -c "$at" a >b
        printf '\%o' $(($(od -An -tu1 -j "$at" -N 1 a) ^ 1)) >byte
        # shellcheck disable=SC2059 # an octal number
        printf "$(cat byte)" >>b
        tail -c +$((at + 2)) a >>b
        test "$(stat -c %s b)" = "$size" || fail "the test"
        refused verify with ours b || fail "byte $at of a signature changed"
    done
    head -c $((size - 1)) a >b
    refused verify with ours b || fail "a short signature"
    { cat a && echo; } >b
    refused verify with ours b || fail "a long signature"
    cp message whole && cp other message
    refused verify with ours a || fail "another message"
    mv whole message

    for one in with without; do
        other=$(test $one = with && echo without || echo with)
        $one req -x509 -new -key ours.pem -subj /CN=one -days 2 -addext basicConstraints=critical,CA:TRUE -out cert.pem || fail "$one req"
        $one req -new -key theirs.pem -subj /CN=two -out two.csr || fail "$one req -new"
        $other req -verify -in two.csr -noout || fail "$other req -verify"
        $one x509 -req -in two.csr -CA cert.pem -CAkey ours.pem -days 2 -extfile extensions -out two.pem || fail "$one x509 -req"
        for side in with without; do
            $side verify -CAfile cert.pem two.pem || fail "$side verify, by $one"
        done
        # shellcheck disable=SC2086 # options
        $one cms -sign -binary $CMS -in message -signer cert.pem -inkey ours.pem -out mail || fail "$one cms -sign"
        for side in with without; do
            $side cms -verify -binary -in mail -CAfile cert.pem -purpose any -out got || fail "$side cms -verify, by $one"
            cmp got message || fail "$side cms -verify, by $one: another message"
        done
        sed 's/^.\{5\}./QQQQQQ/;20,$!b' mail >spoilt
        refused with cms -verify -binary -in spoilt -CAfile cert.pem -purpose any -out got || fail "a spoilt mail"
    done
done
echo "the same"
