//! Known answers, made by `scripts/kat.py`. Do not edit by hand.
//!
//! A comment above each answer names its origin. `computed` means: by two implementations that share no code (OpenSSL and
//! PyCryptodome, see `scripts/reference.py`), which agree.

use super::answer::KnownAnswer;
use super::hex::hex;
use super::sample_keys;
use crate::algorithm::Algorithm;

/// A short answer of each algorithm, and one that crosses several blocks; a single answer of RSA.
#[rustfmt::skip]
pub(crate) const KNOWN_ANSWERS: &[KnownAnswer] = &[
    // RFC 1321, appendix A.5; rfc-1321.txt
    KnownAnswer {
        algorithm: Algorithm::Md5,
        input: hex!("61"),
        output: hex!("0cc175b9c0f1b6a831c399e269772661"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Md5,
        input: pattern(3, 263),
        output: hex!("f30d043d2aa63b1a43fc4f5b1996c435"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, SHAVS / SHA3VS, byte oriented; SHA1ShortMsg.rsp
    KnownAnswer {
        algorithm: Algorithm::Sha1,
        input: hex!("36"),
        output: hex!("c1dfd96eea8cc2b62785275bca38ac261256e278"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Sha1,
        input: pattern(3, 263),
        output: hex!("c0bc9018b491ababcf826f83a5a871dcf6cba01f"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, SHAVS / SHA3VS, byte oriented; SHA224ShortMsg.rsp
    KnownAnswer {
        algorithm: Algorithm::Sha224,
        input: hex!("84"),
        output: hex!("3cd36921df5d6963e73739cf4d20211e2d8877c19cff087ade9d0e3a"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Sha224,
        input: pattern(3, 263),
        output: hex!("90af81b44049c7ed43f240bd8a6157be612333806cc8df7f03292a82"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, SHAVS / SHA3VS, byte oriented; SHA256ShortMsg.rsp
    KnownAnswer {
        algorithm: Algorithm::Sha256,
        input: hex!("d3"),
        output: hex!("28969cdfa74a12c82f3bad960b0b000aca2ac329deea5c2328ebc6f2ba9802c1"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Sha256,
        input: pattern(3, 263),
        output: hex!("2a612c358aa0ecf738f732762237b61b0ea608add0ba906d7d08a006cf4a2a62"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, SHAVS / SHA3VS, byte oriented; SHA384ShortMsg.rsp
    KnownAnswer {
        algorithm: Algorithm::Sha384,
        input: hex!("c5"),
        output: hex!("b52b72da75d0666379e20f9b4a79c33a329a01f06a2fb7865c9062a28c1de860ba432edfd86b4cb1cb8a75b46076e3b1"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Sha384,
        input: pattern(3, 263),
        output: hex!("56bb57d5c965d4d7c52ea567b021c20188518b20b34c2ddbd50c6388d04ccc688ec8c2e539ce14177543a36c3f3b08b1"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, SHAVS / SHA3VS, byte oriented; SHA512ShortMsg.rsp
    KnownAnswer {
        algorithm: Algorithm::Sha512,
        input: hex!("21"),
        output: hex!("3831a6a6155e509dee59a7f451eb35324d8f8f2df6e3708894740f98fdee23889f4de5adb0c5010dfb555cda77c8ab5d\
            c902094c52de3278f35a75ebc25f093a"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Sha512,
        input: pattern(3, 263),
        output: hex!("b1e990e6a04017dc6015501dee046620c42f8a6046e42542a1bc57674db52ee713c4c6f1fc8cdee1caf68e4d9fa8f014\
            aac32c9683d734dece421c5e5252b7bc"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, SHAVS / SHA3VS, byte oriented; SHA512_256ShortMsg.rsp
    KnownAnswer {
        algorithm: Algorithm::Sha512_256,
        input: hex!("fa"),
        output: hex!("c4ef36923c64e51e875720e550298a5ab8a3f2f875b1e1a4c9b95babf7344fef"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Sha512_256,
        input: pattern(3, 263),
        output: hex!("caaa96a3e3b5abbe15882fba01c794a3d151a531b848530ee6ef05f300927366"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, SHAVS / SHA3VS, byte oriented; SHA3_224ShortMsg.rsp
    KnownAnswer {
        algorithm: Algorithm::Sha3_224,
        input: hex!("01"),
        output: hex!("488286d9d32716e5881ea1ee51f36d3660d70f0db03b3f612ce9eda4"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Sha3_224,
        input: pattern(3, 263),
        output: hex!("6a7dc9c99ed3b30594d01bcf56d2df8018ec6005fe77e2f78d5eb6ad"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, SHAVS / SHA3VS, byte oriented; SHA3_256ShortMsg.rsp
    KnownAnswer {
        algorithm: Algorithm::Sha3_256,
        input: hex!("e9"),
        output: hex!("f0d04dd1e6cfc29a4460d521796852f25d9ef8d28b44ee91ff5b759d72c1e6d6"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Sha3_256,
        input: pattern(3, 263),
        output: hex!("12a936101fb587d88c10495525426404b8850d63341adaac8e1b2fc7c2bb1575"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, SHAVS / SHA3VS, byte oriented; SHA3_384ShortMsg.rsp
    KnownAnswer {
        algorithm: Algorithm::Sha3_384,
        input: hex!("80"),
        output: hex!("7541384852e10ff10d5fb6a7213a4a6c15ccc86d8bc1068ac04f69277142944f4ee50d91fdc56553db06b2f5039c8ab7"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Sha3_384,
        input: pattern(3, 263),
        output: hex!("83ce10d65b7159e1c15bd96bcea66d8d926b9d3106218dcb9efaac0268df0535acb6fa136d651e7ad40f4f6565e97deb"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, SHAVS / SHA3VS, byte oriented; SHA3_512ShortMsg.rsp
    KnownAnswer {
        algorithm: Algorithm::Sha3_512,
        input: hex!("e5"),
        output: hex!("150240baf95fb36f8ccb87a19a41767e7aed95125075a2b2dbba6e565e1ce8575f2b042b62e29a04e9440314a821c622\
            4182964d8b557b16a492b3806f4c39c1"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Sha3_512,
        input: pattern(3, 263),
        output: hex!("37b5bb084eed86f854b735ff46262b6d27e97720d982f17329fe487482200767b025479733116644aa02e6d586d72285\
            b9384c289011f8a6a03abeb860a740a4"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // the RIPEMD-160 page of its authors, A. Bosselaers, KU Leuven; ripevectors.txt
    KnownAnswer {
        algorithm: Algorithm::Ripemd160,
        input: hex!("61"),
        output: hex!("0bdc9d2d256b3ee9daae347be6f4dc835a467ffe"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Ripemd160,
        input: pattern(3, 263),
        output: hex!("33be0f392e7c7c7b74ba0fdabd78ff5a05954618"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Blake2b256,
        aad: pattern(85, 12),
        input: pattern(0, 32),
        output: hex!("45296988d7605c2e52ca736e8a46f6728b28253d68e868dd757a70eddbd9ae23"),
        key: &[], second_key: &[], iv: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Blake2b256,
        input: pattern(3, 263),
        output: hex!("84098aa9f6b9ccbfd14db1fab816de88cab38bb69db74141637363ad8b5a2e64"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, SHA3VS, byte oriented; SHAKE128ShortMsg.rsp
    KnownAnswer {
        algorithm: Algorithm::Shake128,
        input: hex!("ae7cafada3e3e9f4314fa2"),
        output: hex!("ae03aecba2995b344aa8e874808b5b7e"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Shake128,
        input: pattern(3, 263),
        output: hex!("4e81f9537bdf7ae3319997d04fc5cb3e39545fc408bc4fff152710974816611b090e0de1b5405d8cb9ca3d5f89610be7\
            ceba07b8eff61c0bcac2ec0664e70537d65a8e7bffca77998b1681e3784207a388b005db4edf041a66acaac9fa668597\
            1dd968bfc376ad136aee2d48a02543f0795c1e0426f2b67b53c1745375604506fdaed58c12e0026160e5fc5d24629134\
            26da3afa35945e7d69116076b93a6878ccdba03543986bc28c9506bc7ba7fc925a8de0de3ac9a1ec8dd1f490a6dd6392\
            e94bd45c8cfa2f12a2ead62e0b4ed40737ac773941c7bdd828dcc2511a966c30833675634efc158de1861cfa44532749\
            e136ff4a3ceceec3d69555bb13f052d2f86a13a0f7085c4f1dcac43f2f522d7abc3ade20b8fc46b2d66b5c838c39dd8b\
            289dc049b3969e4a44983d548bdf54a4bd2869d53e8125e9418a4e2773dac90b1a711c2b31c044b10b39feb82e6488fd\
            6b76e3363e787a55db03a420cf52ca82dc0b690e155469d8ff4560a012061c64719fda0e5a9884deb95e3c4388d8577a\
            ce6ea16086efc54ae9bca460c4ebd7e6"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, SHA3VS, byte oriented; SHAKE256ShortMsg.rsp
    KnownAnswer {
        algorithm: Algorithm::Shake256,
        input: hex!("127373351d8eb30829"),
        output: hex!("dda6a905234e81b47780bb0834a760ecd297068b28d4e00faf2c5094ff869e72"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Shake256,
        input: pattern(3, 263),
        output: hex!("43b3dbc8dcfd13dd08383c50f9b08d4edc6db6426d3816dc66a5bcacbc599ce961a9f8207e0e722c3ef658d1b28c063c\
            04e017963bc7ab5d8cb7a5db80dddf1d2d2f0c1ac73a71e61df4bbbf3f79630836035949daba2e38aa2670ca368e8373\
            f2b9cd83040b990b272db1e18ea3959be1a48206a9d484ec591c3b6a0ef5fdd834b5b94a96ffca5e91af9060f0468eb2\
            39a1e2a3c03e87020ed4129d3a6bbb4e79ff9199b56198f9b9abc98a3ef3e68ac08aca071a7cc9a9ed6571e1658e8283\
            33f32d42a494ff72168ccdf8eaf9e930934c8c814ff3627b12a3624e8ff8f93f906cceaa970c3e33495a37a5e3c3d016\
            05ac840dbfd0648c2325f0c8ab96780e4ba64378e157ba2bd70f1796b9cfc601788e8f914e5ac56d7681238e8b197a09\
            95eb6d9d1e85529c8e9b0968aabf75d62f1fa8ef9a72ee42ff64d7312c8ce9aac1f3d0e996e82947eac92b1f3016045e\
            b22289ceee5f354ecf4992ed51cd6fa0a28fabd74232f723e80f127d865b3d822b8440dea5bcd22d3362773e8bbb16b3\
            8a59fb5559f2286204ea57313b7e6f6e"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // RFC 9861, section 5: TurboSHAKE with the domain byte 1F, KT128 without customization; section 5
    KnownAnswer {
        algorithm: Algorithm::TurboShake128,
        input: hex!("00"),
        output: hex!("55cedd6f60af7bb29a4042ae832ef3f58db7299f893ebb9247247d856958daa9"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::TurboShake128,
        input: pattern(3, 263),
        output: hex!("9386f3291a81e5dbea25d161b061bcf0028f1f26ff9d050479563f433b5c529e6363d1e4fc8d52bf347c6f3bef274a0b\
            e9ee51b4cff2373ba0b438146e98124b04f12afad59b838194964fde882dc011ad7a56dcdc9f944bb456ee9e32ddd99f\
            2f13bca605da5bc7be331e8f1f7a647f77c81bfc758815c06da7fddbffa7e159c2b29b3491698a802d1d733df1d900dc\
            a18bf9caa894ec922365146b4a33e648b83e4abf58e68e23f3622d0ce6d2e1116561631ff25afc0f93bca5b3278c3317\
            71424b7024a2cae6878d582355391bd33417012459e0842c35975c01ef3f49bea46e7ee746af564ab09f1a7081f19014\
            7e3fb41c8e38c7ab9e269e7b58fa91bed50c8954414a074ecec0581405648b4aee4be791a8e276b7386176b746069363\
            e29180c26e91b039aed8105597c9bee8cd776db1c2afc3078af0bb699c45d724bf0a781c92de49c456cd569fe8c070cf\
            dee19a5a4bd99bb2d9c4777adf6b0f01fb3ed7d0f7cf283ebaf96244c3ec86f9b0eadb2f9861c0380bab6407a4468707\
            66b54a801cd3a1c60fa00f00ecd3064c"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // RFC 9861, section 5: TurboSHAKE with the domain byte 1F, KT128 without customization; section 5
    KnownAnswer {
        algorithm: Algorithm::TurboShake256,
        input: hex!("00"),
        output: hex!("3e1712f928f8eaf1054632b2aa0a246ed8b0c378728f60bc970410155c28820e90cc90d8a3006aa2372c5c5ea176b068\
            2bf22bae7467ac94f74d43d39b0482e2"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::TurboShake256,
        input: pattern(3, 263),
        output: hex!("a5a6f6d5ff88213ebc1a06c0a85e4b1a2660ccdd5031f3ec16ed98c5b70d005a1d984105bb8f85a5f1939fc885809945\
            f3c31b470a3364a1fc6c1a52ca6960bd1841221da3e86a62da5fdf033a388f25daff9f6a25d72c3e7a369348d81c1c8a\
            2e17a40a8c140326f3f5e039aac5e210a9f40bcdb9027d73d4e33e609fa060233234dad68e0d53d5b944aad0c98ca0e1\
            bef528f2d5ba713962fab7af8b2053b4ee6737828a40b98dcae82c9a79954c382e1e10757ff7bd515e7a342e0e92bb2a\
            17d6b9cbccdfd47af60ecc170787eb023d9152f9c0c0f3f46090b5876e945d8e11f45e04b55306107dee4de07581128f\
            6da2deaf66700e1fef4f12a4f11bcd16d76dafc9677b632ff6c0ef2cdb46a376ee91992f757a02b1e493b3516e92c435\
            8a83fe884f91a2bb1e3e5c7ea8cda4ff585ad7fcb80e92401ae43ba8cc316c39e123953be1adb1f9caeba04d45f94848\
            beaa4190146f46756fa8ee8dcb3005d8d0ded8cd6d7f41386a635f251962d9cabf33a122341ec229e23a5302f6ed7d37\
            58f9ad3979705967b7c8e577f7516616"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // RFC 9861, section 5: TurboSHAKE with the domain byte 1F, KT128 without customization; section 5
    KnownAnswer {
        algorithm: Algorithm::Kt128,
        input: hex!("00"),
        output: hex!("2bda92450e8b147f8a7cb629e784a058efca7cf7d8218e02d345dfaa65244a1f"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Kt128,
        input: pattern(3, 8600),
        output: hex!("fb1a66c96a1f0db5624c2d5da23d6b0fd0f643ec27de56002ee0f44c05c868c649bb25faa2618dc655f623f0d9e9f3d7\
            a9ece9e6631000a310547bf4d99a242a2f870fc071f241266fe28e744e038cf64741f69e47d13c66466f23b453264690\
            ebc6c1fc2780533d355edcf08f4a60ea2e132cf32ac94a4c587b12c735d355cd47d7e57f0663bfd0899ed99c4fc0a1b7\
            74e0d6d6dda0c8c48ba0b9f9f56b034e93c6d1bdf78a744c8f813f61d71aad6f6cdcc93f95f1d0499b4c0b52a07efa7d\
            7a1675043eac27012d64f36db31595b4e3e9a85603b4765001708a3caa96242e946bbe2c04208f1e9c261fcbeba764a1\
            23729ce4f38b371c2b927c06a6934e281ccfd05d4db9a44caa5cd58437fc565da7788f1e8a0a7fb171f0acf9098079b6\
            8020dc50d78e6c3938bb8dc024652a90cc8cb9c90e9da4633667bbf2f038bf776f15a9ca3b6c9c30f7182b579dce0fb8\
            3a30962cfde808e62a6e7878b80fe75ada3b33d2a581a7f05e5bd66c370ef160d77611b88869eba11ca13e6111f8802a\
            0390ee372058a9b0dd882428c6d34957"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // RFC 2202 (MD5, SHA-1), RFC 4231 (SHA-2), RFC 2286 (RIPEMD-160); rfc-2202-md5.txt
    KnownAnswer {
        algorithm: Algorithm::HmacMd5,
        key: hex!("0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b"),
        input: hex!("4869205468657265"),
        output: hex!("9294727a3638bb1c13f48ef8158bfc9d"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::HmacMd5,
        key: pattern(19, 42),
        input: pattern(3, 263),
        output: hex!("b0c17e600f4ac7c1d3001c0e209069cd"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // RFC 2202 (MD5, SHA-1), RFC 4231 (SHA-2), RFC 2286 (RIPEMD-160); rfc-2202-sha1.txt
    KnownAnswer {
        algorithm: Algorithm::HmacSha1,
        key: hex!("0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b"),
        input: hex!("4869205468657265"),
        output: hex!("b617318655057264e28bc0b6fb378c8ef146be00"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::HmacSha1,
        key: pattern(19, 42),
        input: pattern(3, 263),
        output: hex!("1becea8a066acebda55affae13f01472a1e4cb21"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // RFC 2202 (MD5, SHA-1), RFC 4231 (SHA-2), RFC 2286 (RIPEMD-160); rfc-4231-sha224.txt
    KnownAnswer {
        algorithm: Algorithm::HmacSha224,
        key: hex!("0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b"),
        input: hex!("4869205468657265"),
        output: hex!("896fb1128abbdf196832107cd49df33f47b4b1169912ba4f53684b22"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::HmacSha224,
        key: pattern(19, 42),
        input: pattern(3, 263),
        output: hex!("64ef36efdfabbdc1d0c51ec45a46d94f1e550d6bd806b448f1420710"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // RFC 2202 (MD5, SHA-1), RFC 4231 (SHA-2), RFC 2286 (RIPEMD-160); rfc-4231-sha256.txt
    KnownAnswer {
        algorithm: Algorithm::HmacSha256,
        key: hex!("0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b"),
        input: hex!("4869205468657265"),
        output: hex!("b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::HmacSha256,
        key: pattern(19, 42),
        input: pattern(3, 263),
        output: hex!("98f046d7f36b1aca452de4e7782094a7f37df24566865b447980f7b6469f4d36"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // RFC 2202 (MD5, SHA-1), RFC 4231 (SHA-2), RFC 2286 (RIPEMD-160); rfc-4231-sha384.txt
    KnownAnswer {
        algorithm: Algorithm::HmacSha384,
        key: hex!("0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b"),
        input: hex!("4869205468657265"),
        output: hex!("afd03944d84895626b0825f4ab46907f15f9dadbe4101ec682aa034c7cebc59cfaea9ea9076ede7f4af152e8b2fa9cb6"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::HmacSha384,
        key: pattern(19, 42),
        input: pattern(3, 263),
        output: hex!("148c875c53e3080debc54557ba147cd1eed412ff8bac7a41cba7afedd3ab5c2fe4573f666ad57ad0fefe3c46590a58e3"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // RFC 2202 (MD5, SHA-1), RFC 4231 (SHA-2), RFC 2286 (RIPEMD-160); rfc-4231-sha512.txt
    KnownAnswer {
        algorithm: Algorithm::HmacSha512,
        key: hex!("0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b"),
        input: hex!("4869205468657265"),
        output: hex!("87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cdedaa833b7d6b8a702038b274eaea3f4e4\
            be9d914eeb61f1702e696c203a126854"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::HmacSha512,
        key: pattern(19, 42),
        input: pattern(3, 263),
        output: hex!("700495913f2d835f0225e2d6509eccad56fdd47e611cac56c63258559ef4974f719ccdbbfc1dd01ee2a754ecca5ebba3\
            0d4e110fc0a80ba9d7c3830a835ab525"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::HmacSha512_256,
        key: pattern(16, 25),
        aad: pattern(85, 12),
        input: pattern(0, 32),
        output: hex!("f50b95aabce0a8600f1bc38cbf4f5128b002dc46b666c62f25c272219b9da8d7"),
        second_key: &[], iv: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::HmacSha512_256,
        key: pattern(19, 42),
        input: pattern(3, 263),
        output: hex!("7e13e54db24cbcf06e1e55f7da7b976fe6337a7571504141bfd4b4bda6c84e39"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::HmacSha3_224,
        key: pattern(16, 25),
        aad: pattern(85, 12),
        input: pattern(0, 32),
        output: hex!("a6a2191a8120cff9db5de438815bfb16a8e7afcdde094f32367d816c"),
        second_key: &[], iv: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::HmacSha3_224,
        key: pattern(19, 42),
        input: pattern(3, 263),
        output: hex!("3d9512531b536adff471b676890be272aa0074b667181618ac80a241"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::HmacSha3_256,
        key: pattern(16, 25),
        aad: pattern(85, 12),
        input: pattern(0, 32),
        output: hex!("fa79fbbfdc212c3fa27d77ad8f41074139b6172213f35cbf714f79dc0deb5ffc"),
        second_key: &[], iv: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::HmacSha3_256,
        key: pattern(19, 42),
        input: pattern(3, 263),
        output: hex!("2f962e6e3d5e0b16eb4781024700872623473ce012ed66d0c67a8020b33a9ce4"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::HmacSha3_384,
        key: pattern(16, 25),
        aad: pattern(85, 12),
        input: pattern(0, 32),
        output: hex!("c6e0a88a2384a7b4c2b3a860a68c21bd33a4a26e8bb85b638d25a1ae60ebd7bf89a318ad2c085cd6a6459a9d0a864339"),
        second_key: &[], iv: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::HmacSha3_384,
        key: pattern(19, 42),
        input: pattern(3, 263),
        output: hex!("4c5ce444408b8b7f2a377396e6b817ed6341f5cdee86119b58d7a4a1bcd1be8f96074dfc03ea639e914620703515d328"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::HmacSha3_512,
        key: pattern(16, 25),
        aad: pattern(85, 12),
        input: pattern(0, 32),
        output: hex!("3e88747023a18c595c3ad3a6ae2343981b8097c990424a021d89dbe66337f90d966df744626b3f383bdcb11511b634bb\
            29cd1e61916abdc02fa1660923573405"),
        second_key: &[], iv: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::HmacSha3_512,
        key: pattern(19, 42),
        input: pattern(3, 263),
        output: hex!("af01e8e163b17ce9f414094caef7a42fc283511f697053dbc1e8e0f104f9c1fd505f3fb0002ebbcf1c43968569b627db\
            552f44b1f523a4a33a251415c32c0724"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // RFC 2202 (MD5, SHA-1), RFC 4231 (SHA-2), RFC 2286 (RIPEMD-160); rfc-2286-ripemd160.txt
    KnownAnswer {
        algorithm: Algorithm::HmacRipemd160,
        key: hex!("0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b"),
        input: hex!("4869205468657265"),
        output: hex!("24cb4bd67d20fc1a5d2ed7732dcc39377f0a5668"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::HmacRipemd160,
        key: pattern(19, 42),
        input: pattern(3, 263),
        output: hex!("d55fa290fa064e81d9fcb5a61d6b7deca3e13ef8"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // NIST SP 800-38B, appendix D; nist-800-38b-aes128.txt
    KnownAnswer {
        algorithm: Algorithm::Aes128Cmac,
        key: hex!("2b7e151628aed2a6abf7158809cf4f3c"),
        input: hex!("6bc1bee22e409f96e93d7e117393172a"),
        output: hex!("070a16b46b4d4144f79bdd9dd04a287c"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes128Cmac,
        key: pattern(19, 16),
        input: pattern(3, 263),
        output: hex!("454ee4d55db2ffbc6e65a270af6d8486"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // NIST SP 800-38B, appendix D; nist-800-38b-aes192.txt
    KnownAnswer {
        algorithm: Algorithm::Aes192Cmac,
        key: hex!("8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b"),
        input: hex!("6bc1bee22e409f96e93d7e117393172a"),
        output: hex!("9e99a7bf31e710900662f65e617c5184"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes192Cmac,
        key: pattern(19, 24),
        input: pattern(3, 263),
        output: hex!("f796079694eb4af1a752fa45165aa9af"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // NIST SP 800-38B, appendix D; nist-800-38b-aes256.txt
    KnownAnswer {
        algorithm: Algorithm::Aes256Cmac,
        key: hex!("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4"),
        input: hex!("6bc1bee22e409f96e93d7e117393172a"),
        output: hex!("28a7023f452e8f82bd4bf28d8c37c35c"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes256Cmac,
        key: pattern(19, 32),
        input: pattern(3, 263),
        output: hex!("abd4566a794c82c13c22d9540c5f01ec"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, GCMVS, additional data only; gcmEncryptExtIV128.rsp, those without plaintext
    KnownAnswer {
        algorithm: Algorithm::Aes128Gmac,
        key: hex!("a82bb1edc7c01a3689006f34bfed783e"),
        iv: hex!("963836b67b188becf9ba1411"),
        input: hex!("9d115bb9bbd119fb777b6316065a9ac8"),
        output: hex!("c491889fa3eca4544ba0d51b8e0f3837"),
        second_key: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes128Gmac,
        key: pattern(19, 16),
        iv: pattern(203, 12),
        input: pattern(3, 263),
        output: hex!("6cae248d632105461c0b5e5b4baf6b16"),
        second_key: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, GCMVS, additional data only; gcmEncryptExtIV192.rsp, those without plaintext
    KnownAnswer {
        algorithm: Algorithm::Aes192Gmac,
        key: hex!("12000b16462225446cfe6e80d84d471dbc9aa3f478d46583"),
        iv: hex!("6c883cb8f9ff7e579034524e"),
        input: hex!("232713b8de0744b08251549aaa19154f"),
        output: hex!("2094f4989f850af3bbfc48b1895ec1de"),
        second_key: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes192Gmac,
        key: pattern(19, 24),
        iv: pattern(203, 12),
        input: pattern(3, 263),
        output: hex!("4951c59bbf2eef7a94399a63ba38f9e9"),
        second_key: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, GCMVS, additional data only; gcmEncryptExtIV256.rsp, those without plaintext
    KnownAnswer {
        algorithm: Algorithm::Aes256Gmac,
        key: hex!("4d01c96ef9d98d4fb4e9b61be5efa772c9788545b3eac39eb1cacb997a5f0792"),
        iv: hex!("32124a4d9e576aea2589f238"),
        input: hex!("d72bad0c38495eda50d55811945ee205"),
        output: hex!("6d6397c9e2030f5b8053bfe510f3f2cf"),
        second_key: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes256Gmac,
        key: pattern(19, 32),
        iv: pattern(203, 12),
        input: pattern(3, 263),
        output: hex!("b4ac056b83c4fed6292b17d5d1f3f9a3"),
        second_key: &[], aad: &[], tag: &[],
    },
    // RFC 7539, appendix A.3; rfc7539.txt
    KnownAnswer {
        algorithm: Algorithm::Poly1305,
        key: hex!("1c9240a5eb55d38af333888604f6b5f0473917c1402b80099dca5cbc207075c0"),
        input: hex!("2754776173206272696c6c69672c20616e642074686520736c6974687920746f7665730a446964206779726520616e64\
            2067696d626c6520696e2074686520776162653a0a416c6c206d696d737920776572652074686520626f726f676f7665\
            732c0a416e6420746865206d6f6d65207261746873206f757467726162652e"),
        output: hex!("4541669a7eaaee61e708dc7cbcc5eb62"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Poly1305,
        key: pattern(19, 32),
        input: pattern(3, 263),
        output: hex!("09332fa56ecd56dd64905a61bd273582"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, AESAVS (known answers and multi-block messages); ECBMMT128.rsp
    KnownAnswer {
        algorithm: Algorithm::Aes128Ecb,
        key: hex!("7723d87d773a8bbfe1ae5b081235b566"),
        input: hex!("1b0a69b7bc534c16cecffae02cc5323190ceb413f1db3e9f0f79ba654c54b60e"),
        output: hex!("ad5b089515e7821087c61652dc477ab1f2cc6331a70dfc59c9ffb0c723c682f6"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes128Ecb,
        key: pattern(19, 16),
        input: pattern(3, 272),
        output: hex!("8ad40e9c9e4a1e7af34a3659ec0bf6bad23ceb51356ddb27b72acea0240ff11d482840bf43edbe8267e2d03eb03a9672\
            76fa1f71a6810b6352cf6452efc48a5eade1be6f38accc09fd0aa169684263c02e4f2d9445f8b33b0a9e95f235fc9014\
            1850d9edf1a69d15f1b4ac357a8174a692c285142f3f20afe6845fb64211f0a9af9ad2392b6b39dd7e4eee0e2e23dbce\
            3c55d10bfe872e244f70a27d599919d9e123de30c7ac3c9fec5758740bd63d4b1da2a8305f81f79e0e9a3e81e814132b\
            c920fa24eac9a99eda2b10227a60902503fb4e29052bc2e9d509c7f13eb495464049d218df2e7c1805775cfda822a92d\
            17a014712f37ce15eff1c03393665acd6406f874a6af7b7af848a1d5a9ac43ae"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, AESAVS (known answers and multi-block messages); ECBMMT192.rsp
    KnownAnswer {
        algorithm: Algorithm::Aes192Ecb,
        key: hex!("c9c86a51224e5f1916d3f33a602f697afc852a2c44d30d5f"),
        input: hex!("64145e61e61cd96f796b187464fabbde6f42e693f501f1d73b3c606f00801506"),
        output: hex!("502a73e4051cfac8fe6343211a129f5a5f56710c41b32c84da978dda2cec34ad"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes192Ecb,
        key: pattern(19, 24),
        input: pattern(3, 272),
        output: hex!("9c15b2e1da265425fd5094271e4752265a3779b15692650aa321ad2c18bfd6a6c6f5b20b22d0172c4b6133948c0ce144\
            2af9c2d00542ef94e2a80f5cca2ef8c2e699be6d8150e166da4406ad3d181a1cf85f49eb63d0eac34ba967c3742ef2a8\
            518077f2e9f32caf891fea4476e1e0c7650f37c66d1a7a79ecab08874d9d6aa041560a3adb7de5f1436715e730a9ac06\
            ccdfe5ff53bc3edd0bc662a51e6d65b8aa2ade99e963175ac0d305d68cfa6aeb56e8569d661cd426074deec62c9ad3c8\
            24080282c20451ee89bbf1df4829d3cf233da137c1c9710c8cce0a49813ca69aee148514184541ab251d547784eb66e4\
            2052913a17be04647202e4e9f6ab6b317b768a723357abd86c59f18733285f96"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, AESAVS (known answers and multi-block messages); ECBMMT256.rsp
    KnownAnswer {
        algorithm: Algorithm::Aes256Ecb,
        key: hex!("7a52e4d342aa07255a7e7c34266cf7302abe2d4dd7ec4468a46187ee61825ffa"),
        input: hex!("7e771c6ee4b26db89050e982ba7e9803c8da34606434dd85d2910e538076d001"),
        output: hex!("a91d8b2ddf37520bc469470ad0dd6394923143ce55386beb1f9c4bd51584658e"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes256Ecb,
        key: pattern(19, 32),
        input: pattern(3, 272),
        output: hex!("16fa6fb6ae86587e2ebff0f763f7a7092c7f01114689cdd0428d4fda57e0c05be5123bddfc475d9228e9cca8c48d2a20\
            c1ed2011487900bb80f9aa62eef41268345289071130bee45c3fd5e696faf6845285a477852822951ab3953d751750db\
            be64ed652763437fdcc987bee826c92b688d76504fa14118b0358b7f46f93758479aa606cd8cb22018e4eef6f6f11260\
            cf84a10bb2725efd05669884347b549d95c780676ad78f1a55922a154d4d2c8863df853f5aa82054fe123ef0ec0d1d41\
            ed7851f7b4d01914829be717f6863563fe0320040ca0dc3a3f6c8f8ab390019e63de383d04d5e3fc5da7abf788aa8dea\
            14a57014468accfc5b8a8378203061626b689996cde4fd0265c51cba9cdfedf1"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, AESAVS (known answers and multi-block messages); CBCMMT128.rsp
    KnownAnswer {
        algorithm: Algorithm::Aes128Cbc,
        key: hex!("0700d603a1c514e46b6191ba430a3a0c"),
        iv: hex!("aad1583cd91365e3bb2f0c3430d065bb"),
        input: hex!("068b25c7bfb1f8bdd4cfc908f69dffc5ddc726a197f0e5f720f730393279be91"),
        output: hex!("c4dc61d9725967a3020104a9738f23868527ce839aab1752fd8bdb95a82c4d00"),
        second_key: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes128Cbc,
        key: pattern(19, 16),
        iv: pattern(203, 16),
        input: pattern(3, 272),
        output: AES_128_CBC,
        second_key: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, AESAVS (known answers and multi-block messages); CBCMMT192.rsp
    KnownAnswer {
        algorithm: Algorithm::Aes192Cbc,
        key: hex!("eab3b19c581aa873e1981c83ab8d83bbf8025111fb2e6b21"),
        iv: hex!("f3d6667e8d4d791e60f7505ba383eb05"),
        input: hex!("9d4e4cccd1682321856df069e3f1c6fa391a083a9fb02d59db74c14081b3acc4"),
        output: hex!("51d44779f90d40a80048276c035cb49ca2a47bcb9b9cf7270b9144793787d53f"),
        second_key: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes192Cbc,
        key: pattern(19, 24),
        iv: pattern(203, 16),
        input: pattern(3, 272),
        output: AES_192_CBC,
        second_key: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, AESAVS (known answers and multi-block messages); CBCMMT256.rsp
    KnownAnswer {
        algorithm: Algorithm::Aes256Cbc,
        key: hex!("dce26c6b4cfb286510da4eecd2cffe6cdf430f33db9b5f77b460679bd49d13ae"),
        iv: hex!("fdeaa134c8d7379d457175fd1a57d3fc"),
        input: hex!("50e9eee1ac528009e8cbcd356975881f957254b13f91d7c6662d10312052eb00"),
        output: hex!("2fa0df722a9fd3b64cb18fb2b3db55ff2267422757289413f8f657507412a64c"),
        second_key: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes256Cbc,
        key: pattern(19, 32),
        iv: pattern(203, 16),
        input: pattern(3, 272),
        output: AES_256_CBC,
        second_key: &[], aad: &[], tag: &[],
    },
    // RFC 3686, section 6; aes-128-ctr.txt
    KnownAnswer {
        algorithm: Algorithm::Aes128Ctr,
        key: hex!("7e24067817fae0d743d6ce1f32539163"),
        iv: hex!("006cb6dbc0543b59da48d90b00000001"),
        input: hex!("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"),
        output: hex!("5104a106168a72d9790d41ee8edad388eb2e1efc46da57c8fce630df9141be28"),
        second_key: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes128Ctr,
        key: pattern(19, 16),
        iv: pattern(203, 16),
        input: pattern(3, 272),
        output: AES_128_CTR,
        second_key: &[], aad: &[], tag: &[],
    },
    // RFC 3686, section 6; aes-192-ctr.txt
    KnownAnswer {
        algorithm: Algorithm::Aes192Ctr,
        key: hex!("7c5cb2401b3dc33c19e7340819e0f69c678c3db8e6f6a91a"),
        iv: hex!("0096b03b020c6eadc2cb500d00000001"),
        input: hex!("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"),
        output: hex!("453243fc609b23327edfaafa7131cd9f8490701c5ad4a79cfc1fe0ff42f4fb00"),
        second_key: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes192Ctr,
        key: pattern(19, 24),
        iv: pattern(203, 16),
        input: pattern(3, 272),
        output: AES_192_CTR,
        second_key: &[], aad: &[], tag: &[],
    },
    // RFC 3686, section 6; aes-256-ctr.txt
    KnownAnswer {
        algorithm: Algorithm::Aes256Ctr,
        key: hex!("f6d66d6bd52d59bb0796365879eff886c66dd51a5b6a99744b50590c87a23884"),
        iv: hex!("00faac24c1585ef15a43d87500000001"),
        input: hex!("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"),
        output: hex!("f05e231b3894612c49ee000b804eb2a9b8306b508f839d6a5530831d9344af1c"),
        second_key: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes256Ctr,
        key: pattern(19, 32),
        iv: pattern(203, 16),
        input: pattern(3, 272),
        output: AES_256_CTR,
        second_key: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, AESAVS (known answers and multi-block messages); OFBMMT128.rsp
    KnownAnswer {
        algorithm: Algorithm::Aes128Ofb,
        key: hex!("c9f4ce21b4c7daaa4f93e292dc605bc5"),
        iv: hex!("5e5a8cf2808c720e01c1ed92d470a45d"),
        input: hex!("8e19c5cacd015a662e7f40cdecadbf79a68081c06d9544b41c2dd248e77633b4"),
        output: hex!("885dc48add7ee6a1839bc5c5e03beae071301ecf91a0111520cde0d3a112f5d2"),
        second_key: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes128Ofb,
        key: pattern(19, 16),
        iv: pattern(203, 16),
        input: pattern(3, 263),
        output: hex!("7d6566e3c1b6e86dc17c6ac1876eb8da6e2073f31b9dcb612784d28de38630d1aa3793dffc71fd88d3ff2a832a6cd839\
            42a85923d8016f716a328cd2795864aa8436d06e7f77042849a465b6ba64a22676b990c52c0ac1acf8ace05d6a3c950d\
            f666ff229c6b901e4fed3a3e397aa41e1bd7e49ebdf0d132b98d48d88b63c34d99aa030619c3991fafc0244352ff56bd\
            a19f8254da5d8e54b7ad15d4bde4c75c75eb2b9fa09a9343d863b4830eb2d25a67c027ea622e3f9edb52c8477d74e301\
            21e59fe994cf84b5da96add9fc5d1f232a60c7eef392a322ccf687d37426a0b5a583905a66ac2c439b2cfdcb2bb4fd8e\
            2a1f29d1d22266879ff556126dfd60cbc396361de00981"),
        second_key: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, AESAVS (known answers and multi-block messages); OFBMMT192.rsp
    KnownAnswer {
        algorithm: Algorithm::Aes192Ofb,
        key: hex!("6a32b19fc5f048a29efe97927e8f91df23390278d4fc81eb"),
        iv: hex!("39776bf5d8965c7b795e3c6f23115cac"),
        input: hex!("e8bc8453a7d47de7a9ccd94385b008693e4645f3179311b4a9a1e09c328012dc"),
        output: hex!("18132430a50b89c64c72c5d9092d8bfb844291799d70151690ca85837d89a79d"),
        second_key: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes192Ofb,
        key: pattern(19, 24),
        iv: pattern(203, 16),
        input: pattern(3, 263),
        output: hex!("0927116c66ff706426db77ceabfdfa1c156c64a3c5b285623a8dac75b4deff68992a4e6647648fafe9a4e52869aad6f5\
            6e664789d9087f46971cf040b35c8a2548068ab7c45f4bd65ec9036e7bb06fa44a936f6adcc31dbc420d519baba1ef95\
            6a16bf1af1b152d628361c161a24fa8631533b19fed9c1af6def52960645d28bfd5e2f7a2e47ed4a1043169d66c41aaa\
            50bc1b4df90c1dbc3a0b4f29792cd52e7227539a055b4288d64d3b40ba851f46f4896100440d11bd3547c20875cb928a\
            eb24427e3407284f369d58b36afeb72a966fdc89f7c0bee02f366d3a0f626347cfb2e317bf70261a0ff3d08f4b11cfa1\
            6b62ad1c769903dfd033369065d569325228f291d03d3d"),
        second_key: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, AESAVS (known answers and multi-block messages); OFBMMT256.rsp
    KnownAnswer {
        algorithm: Algorithm::Aes256Ofb,
        key: hex!("a92577607968dbeee135a24edc2f3263926d97141f2c6d9f96c0012f45d1b3b0"),
        iv: hex!("97bfebec0c2e7704d002dc6a1fd36901"),
        input: hex!("bb28705ef9e5151afc73e3886f25f52175dbb57ae36eacc5ac4e989b9d69bff9"),
        output: hex!("944169b510b2825505a14b22eaba744c19ee30da6ed697e3b879425f26808289"),
        second_key: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes256Ofb,
        key: pattern(19, 32),
        iv: pattern(203, 16),
        input: pattern(3, 263),
        output: hex!("7cd8aa7e555d5f4d1a00e674dc00abb0f511cc044ac5a3c219e4bce6f45f1507cb25e4a44b960485f0636e2d769f17ff\
            5fd5622741d2ea255d42d5df35599b41a654e49eeb5bf00033943c50ee7cc3dbc95a8cb7ffcaaf45c06b3027634ec079\
            0f1ee03bba7fa9ded546ebdea3447d7348f32a8f78299186ed24fe75bed8965f556dbddbaf0585181a8b453964d1cd12\
            eaf4b90859bf399b6e5bd71c155e6efade9a273ee2acb19bc878bdc9a8e52d41083d60193f425d2ab5c512fe0d977f4f\
            57ff745c8d4ed3b64d7856361c8c98aa220f32ff0a07475f25937074bb2d4fdd9bed290c19ab0bccc9848ed908fe3b60\
            d415437d2a7be8eb136e862b67a065f818d8fcda5dd59c"),
        second_key: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, AESAVS (known answers and multi-block messages); CFB128MMT128.rsp
    KnownAnswer {
        algorithm: Algorithm::Aes128Cfb,
        key: hex!("701ccc4c0e36e512ce077f5af6ccb957"),
        iv: hex!("5337ddeaf89a00dd4d58d860de968469"),
        input: hex!("cc1172f2f80866d0768b25f70fcf6361aab7c627c8488f97525d7d88949beeea"),
        output: hex!("cdcf093bb7840df225683b58a479b00d5de5553a7e85eae4b70bf46dc729dd31"),
        second_key: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes128Cfb,
        key: pattern(19, 16),
        iv: pattern(203, 16),
        input: pattern(3, 263),
        output: hex!("7d6566e3c1b6e86dc17c6ac1876eb8da195bc78df1f420f5d38318a62655b10b25c41a9ea76084ef1190e58202b3809d\
            be8d62f7f6683c14f59987d2e4a6b3cfc76c6a07a7d7535ee37cfd9d3d37be297d72ebcd08037e17ad18a06194cdb207\
            f962cb99fbefaebd052145bbb7ec94e7a5858cc86bf2c0c24a35087880192181133718cd52914675130dbaf7e28e7c83\
            14dc218ca05e918f5f43d1aad7034348b9c87d90ceb8e9eb57f038c1fe4e87386cc61a75de1c0aebd367bf5600431b20\
            f4d1efc262204d8a98f181a803c0de1e5d378500d74c5e654e65a08f20ea9c5e226b81439b5acaca7b107a93ae4598d1\
            a003e3999834e44c0f8fb4b0063499507359652012dfc6"),
        second_key: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, AESAVS (known answers and multi-block messages); CFB128MMT192.rsp
    KnownAnswer {
        algorithm: Algorithm::Aes192Cfb,
        key: hex!("69f9d29885743826d7c5afc53637e6b1fa9512a10eea9ca9"),
        iv: hex!("3743793c7144a755768437f4ef5a33c8"),
        input: hex!("f84ebf42a758971c369949e288f775c9cf6a82ab51b286576b45652cd68c3ce6"),
        output: hex!("a3bd28bb817bdb3f6492827f2aa3e6e134c254129d8f20dbc92389b7d89702d6"),
        second_key: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes192Cfb,
        key: pattern(19, 24),
        iv: pattern(203, 16),
        input: pattern(3, 263),
        output: hex!("0927116c66ff706426db77ceabfdfa1c6a67a4a9789139acd0e440cccb3c01c2f070c4e3676f683cd4835d1332e7bb52\
            e4a90a7f2a898594dad9f364692239e9094d86ab2d387f95ba9b5910395892681d16a279eb4e6fa2f84e991a3b830aa8\
            80f92b2230809b81c32fcaeae8ce4283d8efa2067e6473016e193b577ba62886f1d639b72184a3950242a9f1250d2dc6\
            29a42024d86432424e4d0076ff014398a3b684b01eeaf11df22753a3439f568516e2235add9ab2d43949cbcc07c83901\
            3d6ad1bde794cb31556e9434cf32ccf8c993db7020ea6ac4afad6ba4c79e516eb9d3a2290b7529a67cf6cb88bab4a589\
            0a5fd384db4b1e4f4b4c4b263218ae7d254b9ac6c0f5d4"),
        second_key: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, AESAVS (known answers and multi-block messages); CFB128MMT256.rsp
    KnownAnswer {
        algorithm: Algorithm::Aes256Cfb,
        key: hex!("ae59254c66d8f533e7f5002ced480c33984a421d7816e27be66c34c19bfbc2a8"),
        iv: hex!("821dd21653ece3af675cd25d26017ae3"),
        input: hex!("3cb4f17e775c2d6d06dd60f15d6c3a103e5131727f9c6cb80d13e00f316eb904"),
        output: hex!("ae375db9f28148c460f6c6b6665fcc2ff6b50b8eaf82c64bba8c649efd4731bc"),
        second_key: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes256Cfb,
        key: pattern(19, 32),
        iv: pattern(203, 16),
        input: pattern(3, 263),
        output: hex!("7cd8aa7e555d5f4d1a00e674dc00abb071beead6369f990ee4c6ff61a9d03d15bc5e39f8c373e3222e35af65d03045fb\
            5049e300db20fe19b7d5b53bcb5b2c69cd4a8dbf6de9126128f5b48b4fd653e0e17b0a4d5e9fa35a146c3ca940107fe3\
            a28a70a018f035db5c9facc11271d1e9696b186876e8f59c4b078ef6298a4a4c462a7bb405252e739dd1ab233db92705\
            76afca744f7f13ac3e8f201c1c27d4cc2001f12c4ca780078cfcb11fa9b68f4787232e488eaac1935c6de7c46b499fe4\
            d72fd1a481bc71b606480985ebb6ac63deefa0bb98a51d231bf77beec66e12d693b61aa8fbbac2a78f299a5cbb701e4f\
            f418de5aeb7650d89fe3a70cbb0785af8e1961494658ba"),
        second_key: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, XTSVS, tweak as 128 bits (whole bytes only); XTSGenAES128.rsp
    KnownAnswer {
        algorithm: Algorithm::Aes128Xts,
        key: hex!("b7b93f516aef295eff3a29d837cf1f135347e8a21dae616ff5062b2e8d78ce5e"),
        iv: hex!("873edea653b643bd8bcf51403197ed14"),
        input: hex!("236f8a5b58dd55f6194ed70c4ac1a17f1fe60ec9a6c454d087ccb77d6b638c47"),
        output: hex!("22e6a3c6379dcf7599b052b5a749c7f78ad8a11b9f1aa9430cf3aef445682e19"),
        second_key: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes128Xts,
        key: pattern(19, 32),
        iv: pattern(203, 16),
        input: pattern(3, 263),
        output: hex!("47a24f2cd30dcef1067880be672dfc45ed58c30f2415b555b6c4f7caf5e94251c592634d287944d65f82747b1f19cc0e\
            fd46fa99b6971dfe75a7c77e00423605656eba752f0b0601d9598e55fc0cebb62c293d549df8daaa0ae1f0e3d2a2f171\
            f0e8339afc20c324f644d250c277703f301a0d8b6f875fe5e1bb130d50ed256876d596dd6cf40d9c32fc7a1fb217ad17\
            b7551cd7650c23927db9f1938550916eeccf7a528f89a742aae5df1958231b4478f24916785048433fc8c76c4494b475\
            5b7054d02be80ad1e9fef6555eb3c26c801d8400ed8f4a1a0b04497215f0b2cdb9ed1ab73e3f8d7f507f82c26503ea05\
            101d8b0a0aa39f54f42e9408ae58a60321a0c9995cc96b"),
        second_key: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, XTSVS, tweak as 128 bits (whole bytes only); XTSGenAES256.rsp
    KnownAnswer {
        algorithm: Algorithm::Aes256Xts,
        key: hex!("1ea661c58d943a0e4801e42f4b0947149e7f9f8e3e68d0c7505210bd311a0e7cd6e13ffdf2418d8d1911c004cda58da3\
            d619b7e2b9141e58318eea392cf41b08"),
        iv: hex!("adf8d92627464ad2f0428e84a9f87564"),
        input: hex!("2eedea52cd8215e1acc647e810bbc3642e87287f8d2e57e36c0a24fbc12a202e"),
        output: hex!("cbaad0e2f6cea3f50b37f934d46a9b130b9d54f07e34f36af793e86f73c6d7db"),
        second_key: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes256Xts,
        key: pattern(19, 64),
        iv: pattern(203, 16),
        input: pattern(3, 263),
        output: hex!("a153024cca4d426b74502891861a744b0d709efd90a39eedc5df8dab96e69cbf74c149fa1eb354a9974eafe8880e2a46\
            a467e532a56ac4f1baada5be2e7aee32af385bd6cf6e7f76021a69c334d61e2223263f644ab02127f4bc7e4038b9f2c6\
            238ff7654cb2c5c3290cf96e017106b389c4fdf0a03efcf1f924e9f311ec607c840f02cf13ad3cd1345b3d4b679d2570\
            6c87fb5e8eb45a97be6c1182933e412762ebf923269a328b90544146a2c60bc3aed1090e36b69b46c9f97b5d9f4cfc60\
            d4c8b5553766ef716518d4d57c9f3e77f8e6be23e751a9d83f106ee64bf7226b4031642749c568cbe1efa902f416f134\
            2936a5d78a6120a879aba8e4fb1b5e724e2424672568b9"),
        second_key: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, TDES (SP 800-20 known answers and multi-block messages); TCBCMMT3.rsp
    KnownAnswer {
        algorithm: Algorithm::DesEde3Cbc,
        key: hex!("d98aadc76d4a3716158c32866efbb9ce834af2297379a49d"),
        iv: hex!("3c5220327c502b44"),
        input: hex!("6174079dda53ca723ebf00a66837f8d5ce648c08acaa5ee45ffe62210ef79d3e"),
        output: hex!("f5bd4d600bed77bec78409e3530ebda1d815506ed53103015b87e371ae000958"),
        second_key: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::DesEde3Cbc,
        key: hex!("858c929ba1a8aeb6bcc4cbd3d9e0e6eff4fd020b10191f26"),
        iv: pattern(203, 8),
        input: pattern(3, 272),
        output: hex!("59c4630318f3749ec4252d9728353ae7e3d0d1af347703685492132fec6eedf9ac88acc648be30c4323bf64111388e4e\
            f798c6b5387d8222182d33bf686bbd63ab78a6b0ce5e971e368cfb618bee05949f543a10300e47e3e573bc1975ee6975\
            f38e51ac0b63d0e8fc5665b51c1c41eede6781e1c7903899e5f7c943cdc5fa2cd93ebe0b89ecaf7991711f40558fd981\
            18004353da8afbf19b234e2d581c041e3f3e0009e9c76109ca43e7e489f73af671dae99daa2f22fa74e9c55d44e7ff1b\
            9de785b58fbeffa911c219b43252d74bf530b6c59352878408053b71cb231729669732878e0cf518f4f795a8fceb3acd\
            3338f7ae9a4d45a5b46465d89f0e3f669a358b4b982e98bbffb197757857ec13"),
        second_key: &[], aad: &[], tag: &[],
    },
    // RFC 7539, appendix A.2; rfc7539.txt
    KnownAnswer {
        algorithm: Algorithm::ChaCha20,
        key: hex!("0000000000000000000000000000000000000000000000000000000000000000"),
        iv: hex!("00000000000000000000000000000000"),
        input: hex!("000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
            00000000000000000000000000000000"),
        output: hex!("76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7da41597c5157488d7724e03fb8d84a37\
            6a43b8f41518a11cc387b669b2ee6586"),
        second_key: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::ChaCha20,
        key: pattern(19, 32),
        iv: pattern(203, 16),
        input: pattern(3, 263),
        output: hex!("5e6956dbc895bf49f4de5d1a75157d980186445e809cc9bd64204d08273b69d446e58bdc50327de8f8c58684423d7355\
            68c552f666f7f3f07426bb0104fc54928b33f6165714dd2ccddaf9f24387fa07ed0e398fd475e2d1d6ad4bf1c7a10930\
            84398fa237da412acb186acaeb29b0ec6451cb3817ae38711cdc14c0973ba2b9f4380ae761ee9444b3052683e15ad677\
            6f0f9bed637334552595c34a18abaff201e32d93fe42370c55d87e8b8ef88698fbc86271bae02a7aea301fc58d95c573\
            42f9b766e7febd2bfc227cebd0839f2c6fc125fe5c780fe661852b03980617f0fd0ef53a802c794edda9c91aba8843a4\
            d27873324b68e696f513d0ce5c9bb7acbd2b5e9d1968fc"),
        second_key: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, GCMVS; gcmEncryptExtIV128.rsp
    KnownAnswer {
        algorithm: Algorithm::Aes128Gcm,
        key: hex!("c939cc13397c1d37de6ae0e1cb7c423c"),
        iv: hex!("b3d8cc017cbb89b39e0f67e2"),
        aad: hex!("24825602bd12a984e0092d3e448eda5f"),
        input: hex!("c3b3c41f113a31b73d9a5cd432103069"),
        output: hex!("93fe7d9e9bfd10348a5606e5cafa7354"),
        tag: hex!("0032a1dc85f1c9786925a2e71d8272dd"),
        second_key: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes128Gcm,
        key: pattern(19, 16),
        iv: pattern(203, 12),
        aad: pattern(88, 20),
        input: pattern(3, 263),
        output: hex!("b2211851256fed3098bfb5f82f8640bcacf4f217839bf799d1f635dd539a0e4c18881cbe2b59fdecdb681b7188d4b83f\
            8132afc997112d82da5a458afc070910e7cf38abc10ed706de3cec77664545d844528c70a1d9132bda93d4a1b7de2d75\
            7cd18badc11337031bdad7a9b6a82d6366d16a4a2ac52e4afa50c8e42a6f24ff9e01379e98c6882c618759a3342a70b9\
            9c4e9a67a965e36cba231cabbf35d27b330bb37b3a923683f74f2b67138f00aa1b04b03e850eef4fd58b3f642d713ed6\
            cff7c696b8b14a4beacd0800ee03ab43e21dee154ae76350d8d0ae9fea912adc053b2e38fb5b1dbeaea297f48368a666\
            0126bcd794608bfe3490c9837f085720dc0b797957c27a"),
        tag: hex!("7d25951878f8e4b422244686490c6cb1"),
        second_key: &[],
    },
    // NIST CAVP, GCMVS; gcmEncryptExtIV192.rsp
    KnownAnswer {
        algorithm: Algorithm::Aes192Gcm,
        key: hex!("6f44f52c2f62dae4e8684bd2bc7d16ee7c557330305a790d"),
        iv: hex!("9ae35825d7c7edc9a39a0732"),
        aad: hex!("1b4236b846fc2a0f782881ba48a067e9"),
        input: hex!("37222d30895eb95884bbbbaee4d9cae1"),
        output: hex!("a54b5da33fc1196a8ef31a5321bfcaeb"),
        tag: hex!("1c198086450ae1834dd6c2636796bce2"),
        second_key: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes192Gcm,
        key: pattern(19, 24),
        iv: pattern(203, 12),
        aad: pattern(88, 20),
        input: pattern(3, 263),
        output: hex!("76dc63313bd5bc5860b080429ccf3236017b4f95bcd64932c5406d4408d2d14c64825f9fccf6c34ee2ac99d8b3ccc59d\
            18120a920fa0a1b81f3e16fba195bfc8992b04597566eba9bd8433880c48655043d64405e2a65ba1399a2e1246ab92dd\
            7a099e16cd4030b215e8ecf96c551d25ad054a8c8e5cebd030f357d8da946315875262a2195375a36deb3194209a97d6\
            b08310f9fcd6a1f566e93af24039cff6596b88d03f6ceba87c8fae8ff3eed1cf41dc5ae4d61c216b62b704ded2a61fc5\
            63cca266ee447c9bb058bc97021e3f44345af9d1ea281eab8f7b0c8309f18d43bb76f4c885c04c19ace0a75141e77b38\
            3a7cc2cb44f568aead7dd68dd7af000c0632c39b7b5e81"),
        tag: hex!("fd6c49568d7ed0d9a6701f7e78c628a3"),
        second_key: &[],
    },
    // NIST CAVP, GCMVS; gcmEncryptExtIV256.rsp
    KnownAnswer {
        algorithm: Algorithm::Aes256Gcm,
        key: hex!("92e11dcdaa866f5ce790fd24501f92509aacf4cb8b1339d50c9c1240935dd08b"),
        iv: hex!("ac93a1a6145299bde902f21a"),
        aad: hex!("1e0889016f67601c8ebea4943bc23ad6"),
        input: hex!("2d71bcfa914e4ac045b2aa60955fad24"),
        output: hex!("8995ae2e6df3dbf96fac7b7137bae67f"),
        tag: hex!("eca5aa77d51d4a0a14d9c51e1da474ab"),
        second_key: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes256Gcm,
        key: pattern(19, 32),
        iv: pattern(203, 12),
        aad: pattern(88, 20),
        input: pattern(3, 263),
        output: hex!("e6ac733ef47acfde5a3974bc3718f50ae092d4767fe751279cc1bfded0f506645c2d5b0c47064e35837a549b3fda1c36\
            21592b22526b7ab0604454b4e9abf80ba63bd650d7f416e40f258aac7b948d67108ea2a0c2fe34c55d7515a2a9912ba4\
            a3e408926ed258ecfdbb504277ce2fa4adf7286c2f8ae2b0f15a43b36a2873c237926ace89b1e5c5278a88d941406c7b\
            beae08f947888ec78c3399186f9b51e6719df0c2274653a12c6200460c247e2272ea963fa823fc54f0205ca7ef9004ec\
            5a2e2fedde606ef2a7a81e4f629cb1c26c04e8d397d050f5b2fa14a70e5bc3a817859753197ef37313d1c986c6909d26\
            93f1e5412156a38da140e722ca2aa77d66042353a667ad"),
        tag: hex!("cc1a6dbd2d1eecb41d64f4b326497911"),
        second_key: &[],
    },
    // NIST CAVP, CCMVS; VNT128.rsp
    KnownAnswer {
        algorithm: Algorithm::Aes128Ccm,
        key: hex!("005e8f4d8e0cbf4e1ceeb5d87a275848"),
        iv: hex!("0ec3ac452b547b9062aac8fa"),
        aad: hex!("2f1821aa57e5278ffd33c17d46615b77363149dbc98470413f6543a6b749f2ca"),
        input: hex!("b6f345204526439daf84998f380dcfb4b4167c959c04ff65"),
        output: hex!("9575e16f35da3c88a19c26a7b762044f4d7bbbafeff05d75"),
        tag: hex!("4829e2a7752fa3a14890972884b511d8"),
        second_key: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes128Ccm,
        key: pattern(19, 16),
        iv: pattern(203, 12),
        aad: pattern(88, 20),
        input: pattern(3, 263),
        output: hex!("33e78f5d925a91ba1c543591a6eb83ec813321000219e275d830bfac241d26b590aa705dd199561811a73446e51189ba\
            3bc25aa1a96e5e5e8f475397b7b4bb75c73bfedb3659e7f17a1b3e34d73b9179e12f18c47bb369a7a15133b6e4d90bf1\
            0ec898dcd27f30c89ce50f5b4e11ce6fd87445aeefed5f1c06a21959c6f8483fadf6e1e00a61a8bb2bb1c514893b8b67\
            7b448842a56284b5838f3cb4b3aec0f7011647375ae9c06d891974b4d79b14545459846d62142361cc9794dcfc9cb37a\
            a3415c8b0edb5671ca4c1122b79d777dbcd75f6ab79fdc880e58314acb329cc081d245e81701d2cf5ca6797ba17eefec\
            2a066a8a13474d380e575e01b90bb454918e578dd8ffde"),
        tag: hex!("d992062e1712f3185839b96f289cbf9e"),
        second_key: &[],
    },
    // NIST CAVP, CCMVS; VNT192.rsp
    KnownAnswer {
        algorithm: Algorithm::Aes192Ccm,
        key: hex!("d49b255aed8be1c02eb6d8ae2bac6dcd7901f1f61df3bbf5"),
        iv: hex!("1af29e721c98e81fb6286370"),
        aad: hex!("64f8a0eee5487a4958a489ed35f1327e2096542c1bdb2134fb942ca91804c274"),
        input: hex!("062eafb0cd09d26e65108c0f56fcc7a305f31c34e0f3a24c"),
        output: hex!("721344e2fd05d2ee50713531052d75e4071103ab0436f65f"),
        tag: hex!("0af2a663da51bac626c9f4128ba5ec0b"),
        second_key: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes192Ccm,
        key: pattern(19, 24),
        iv: pattern(203, 12),
        aad: pattern(88, 20),
        input: pattern(3, 263),
        output: hex!("37bee9d07281df142032ca53e7e00bfd0e4619842921d3ced4d97533b8f7153c755d0d517cddbd7851fbffd1e4cfd22c\
            205f3656892df57443d69225d0ab6da069e6f76d027435b1a549fa819947eb37bf2356aac3c9b995e7e9ad6621ff4ceb\
            96bfac22bf94f3d15e2b9bc5b66b842c29f9bf1bdaeff315f458676fcc7923ab4a909b7de83e73583c92b2c2000aa427\
            d6d7a503908646d43fbac8e8d27c84088a84b40d4fbec03d9df7cd0a38c308f7614ef3550f81af9b61a0ee510a84f95d\
            e2a5046c1416cb1e43524f6ad58a42677e18cafceb56123cbb2faf41f649b2c192ce7a447c1c656579eb7bdfff581c75\
            69860978226d8d46ba39504698fb4bfabac560928d15c3"),
        tag: hex!("035f0ee32c60c9b6de14a47bcab2bd7a"),
        second_key: &[],
    },
    // NIST CAVP, CCMVS; VNT256.rsp
    KnownAnswer {
        algorithm: Algorithm::Aes256Ccm,
        key: hex!("d6ff67379a2ead2ca87aa4f29536258f9fb9fc2e91b0ed18e7b9f5df332dd1dc"),
        iv: hex!("2f1d0717a822e20c7cd28f0a"),
        aad: hex!("d50741d34c8564d92f396b97be782923ff3c855ea9757bde419f632c83997630"),
        input: hex!("98626ffc6c44f13c964e7fcb7d16e988990d6d063d012d33"),
        output: hex!("50e22db70ac2bab6d6af7059c90d00fbf0fb52eee5eb650e"),
        tag: hex!("08aca7dec636170f481dcb9fefb85c05"),
        second_key: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes256Ccm,
        key: pattern(19, 32),
        iv: pattern(203, 12),
        aad: pattern(88, 20),
        input: pattern(3, 263),
        output: hex!("dacdbea6252d447106bb7ffb32be43d870ad60a0bcb2cccbc4bb37516e5c0c2b4fbc44f2f555075c438183bc3cd3dcd7\
            bdfdce30cccedccc01b0799c1ad77607789a83489b3c603777657dfd96e48f2a3ad7575a23b786c9587f690071ea5a4a\
            d9e700fdc3ee0a17183df17cc47464992bcbf5627befe2d6d73731c804ea060c7d4f9cef06b3656c35b502b7651491cf\
            ec73b66dcf59b6851cfaa9d3eae37d10106d667f7f7f6f1d37fcfc516f3c6e4baba04742846f49c72b76799e9e2157d0\
            9c94c1af8f11cf36c517a48b75ffd47eac6f8ddfde8f05fc05ad1e18d54beb67a3a1a8641362ee143aa224e9a99eb47f\
            7b1293192b4b0c81273761cf82cad73d47e905875f739c"),
        tag: hex!("4e7f66e59762c86de1847ed280b63da2"),
        second_key: &[],
    },
    // RFC 7539, section 2.8.2, and BoringSSL's chacha20_poly1305_tests.txt; boringssl.txt
    KnownAnswer {
        algorithm: Algorithm::ChaCha20Poly1305,
        key: hex!("808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f"),
        iv: hex!("070000004041424344454647"),
        aad: hex!("50515253c0c1c2c3c4c5c6c7"),
        input: hex!("4c616469657320616e642047656e746c656d656e206f662074686520636c617373206f66202739393a20496620492063\
            6f756c64206f6666657220796f75206f6e6c79206f6e652074697020666f7220746865206675747572652c2073756e73\
            637265656e20776f756c642062652069742e"),
        output: hex!("d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b\
            1a71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc\
            3ff4def08e4b7a9de576d26586cec64b6116"),
        tag: hex!("1ae10b594f09e26a7e902ecbd0600691"),
        second_key: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::ChaCha20Poly1305,
        key: pattern(19, 32),
        iv: pattern(203, 12),
        aad: pattern(88, 20),
        input: pattern(3, 263),
        output: hex!("fc0ae8e732b63d0dd83ef8e80e71cbdb34dba7b05eba567e5f6e413b813de5c0edf68710cb6ed33be99fd1651005fe7a\
            df192931a0117c013287119355af3e675f64d3954afc7d1aa89ec88e30c86b45188312e2515a24b4c35492bdc53f33b0\
            73f5c7e786f2fd0b9bfa206f7dc5691fef6125f3dd6980a129faf2bd592564659990f873f7f3e619469b549908a5a78b\
            ed2ce82ec0257c8f22acc90e37f0d72db231dc8a266ff259f2564bf4ae5fb4b3877fba11ce5f9c66e485a37b43a356e1\
            7355eca05b32fc68757d08fb7fbf1a527b85e9e5389914510b1cf696a339a7c3856a5166ee3193373b6844aa9fe102cd\
            f2a720f42eed4f268a132ebd955b4f0805f0a7fe8b6fc0"),
        tag: hex!("890d684f816edee2e7170fa107dc6e88"),
        second_key: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::XChaCha20Poly1305,
        key: pattern(16, 32),
        iv: pattern(200, 24),
        aad: pattern(85, 12),
        input: pattern(0, 32),
        output: hex!("84dede08c47a9fdcbdf4c1381dc496281d7bb61671e5121c8d273509e04ba346"),
        tag: hex!("18b001b8af1c515df6419eebf183e549"),
        second_key: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::XChaCha20Poly1305,
        key: pattern(19, 32),
        iv: pattern(203, 24),
        aad: pattern(88, 20),
        input: pattern(3, 263),
        output: hex!("39c65ad7564d4ffe3d9c06c12c64d93690d1f83b3ef00831a3987204fae9ab6cb720f41ec9ba9be5f3ca524979ef1705\
            aa875a564947cf4d77ba9051388079a6ce563af9c281fa5a6c7b57f0927d83edd5e9ef1bd46329fc0bff6a0bb020de0b\
            3531a0ea30b4ed017cc13a90f61f7d30e8d1d8815c1f203259e265e047091cb0df463af6d19a3904d9bc7e7090901b28\
            e3ce43fea5ec5ca9d349b7c42b540fe00a895d5bfd25f36e5b39b1b536e945f5709e774a3431325052176fd5bc770727\
            7b7d822a7bc156435c77f194484f8e629ad4bd31e39bc2f53b856d479f3302c0bd20cd1571748e3c76d2d201f29c210b\
            df40c2d306913f52e2a8360803512d62c97c770b82a87a"),
        tag: hex!("5b2b48587dbb03ed204de1c60d73bb1f"),
        second_key: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes128CbcHmacSha1,
        key: pattern(16, 16),
        second_key: pattern(96, 20),
        iv: pattern(200, 16),
        aad: pattern(85, 12),
        input: pattern(0, 32),
        output: hex!("3fdc701beadf6387cd306f968a1b93f67439e9041fa20a0d3b2cd579f1e93cd7"),
        tag: hex!("9148b4abe70c89b34de12c671f015330e9fd5ccf"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes128CbcHmacSha1,
        key: pattern(19, 16),
        second_key: pattern(99, 20),
        iv: pattern(203, 16),
        aad: pattern(88, 20),
        input: pattern(3, 272),
        output: AES_128_CBC,
        tag: hex!("5733790f2b4374e82d5a5aabd934dbcaf595c492"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes128CbcHmacSha256,
        key: pattern(16, 16),
        second_key: pattern(96, 32),
        iv: pattern(200, 16),
        aad: pattern(85, 12),
        input: pattern(0, 32),
        output: hex!("3fdc701beadf6387cd306f968a1b93f67439e9041fa20a0d3b2cd579f1e93cd7"),
        tag: hex!("35935c35dab33ccc18daad9a1a80a5cd7f5c4550f8fa717f41bfe1def0b2765e"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes128CbcHmacSha256,
        key: pattern(19, 16),
        second_key: pattern(99, 32),
        iv: pattern(203, 16),
        aad: pattern(88, 20),
        input: pattern(3, 272),
        output: AES_128_CBC,
        tag: hex!("ff1b46d3c706450eb17485cdc50b1c30e75e049fed77e374a21055c7f8ac5ba7"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes128CbcHmacSha384,
        key: pattern(16, 16),
        second_key: pattern(96, 48),
        iv: pattern(200, 16),
        aad: pattern(85, 12),
        input: pattern(0, 32),
        output: hex!("3fdc701beadf6387cd306f968a1b93f67439e9041fa20a0d3b2cd579f1e93cd7"),
        tag: hex!("a223004ca74833d4d1fc62826bae306fc99b885d218ac465c6835e4dd3b66ac060bac0cdb38c3a4e10207581bbd29bf4"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes128CbcHmacSha384,
        key: pattern(19, 16),
        second_key: pattern(99, 48),
        iv: pattern(203, 16),
        aad: pattern(88, 20),
        input: pattern(3, 272),
        output: AES_128_CBC,
        tag: hex!("1a5495d8847fa7622056347c6251b238d6cdfc9dc1cfe7af067a63fa12a12fa266b63509e5ba32b259c5b1f187e8bf42"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes128CbcHmacSha512,
        key: pattern(16, 16),
        second_key: pattern(96, 64),
        iv: pattern(200, 16),
        aad: pattern(85, 12),
        input: pattern(0, 32),
        output: hex!("3fdc701beadf6387cd306f968a1b93f67439e9041fa20a0d3b2cd579f1e93cd7"),
        tag: hex!("cbdb377ddd6be81e01597481077fff254b2e9dccffeb0d640d1a108bee577bfdb19fbc349cabe85dc97a360d68d94de5\
            26f4834bcd628ef5d232907f6e47d192"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes128CbcHmacSha512,
        key: pattern(19, 16),
        second_key: pattern(99, 64),
        iv: pattern(203, 16),
        aad: pattern(88, 20),
        input: pattern(3, 272),
        output: AES_128_CBC,
        tag: hex!("f63d80366a0b613f2b75b4c3a761f1d45d9cff804e8bd1509555ef12e53f94805986e0ee127ff3e71bbfb8c1bfbd5ea5\
            657d29fe6f153020f0014c9fded5002f"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes192CbcHmacSha1,
        key: pattern(16, 24),
        second_key: pattern(96, 20),
        iv: pattern(200, 16),
        aad: pattern(85, 12),
        input: pattern(0, 32),
        output: hex!("172acdf3353a64bb807958ca7703a285334333c802a6f7ff459dc1633d9b7d0b"),
        tag: hex!("2bdc70e6e10892030ae723b3f0e02a4bb6baa180"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes192CbcHmacSha1,
        key: pattern(19, 24),
        second_key: pattern(99, 20),
        iv: pattern(203, 16),
        aad: pattern(88, 20),
        input: pattern(3, 272),
        output: AES_192_CBC,
        tag: hex!("652cac26ba9784dc7d533ef7875ca2bc697ce929"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes192CbcHmacSha256,
        key: pattern(16, 24),
        second_key: pattern(96, 32),
        iv: pattern(200, 16),
        aad: pattern(85, 12),
        input: pattern(0, 32),
        output: hex!("172acdf3353a64bb807958ca7703a285334333c802a6f7ff459dc1633d9b7d0b"),
        tag: hex!("f5f07afca39b04921dd10fbc32d30f1bdd9183ea3b690b084a8cae899e7a651c"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes192CbcHmacSha256,
        key: pattern(19, 24),
        second_key: pattern(99, 32),
        iv: pattern(203, 16),
        aad: pattern(88, 20),
        input: pattern(3, 272),
        output: AES_192_CBC,
        tag: hex!("7ecf3d5059f25315b300de03537fa9548ab4952a058ab1ba78ab2e18bab7ffdf"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes192CbcHmacSha384,
        key: pattern(16, 24),
        second_key: pattern(96, 48),
        iv: pattern(200, 16),
        aad: pattern(85, 12),
        input: pattern(0, 32),
        output: hex!("172acdf3353a64bb807958ca7703a285334333c802a6f7ff459dc1633d9b7d0b"),
        tag: hex!("e020fb2434d0356daeef08d227dd5d6e9f844bc5059f4bb7989075e05cd0b14886a3c52c580ae4a8be582d8f229c390a"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes192CbcHmacSha384,
        key: pattern(19, 24),
        second_key: pattern(99, 48),
        iv: pattern(203, 16),
        aad: pattern(88, 20),
        input: pattern(3, 272),
        output: AES_192_CBC,
        tag: hex!("663aed8d24cb8c0c8c2ed44ad4827cbfc0081845420e4af1e0590aac4eda8852183a42ead28ea8ea5b3c2b0955516f05"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes192CbcHmacSha512,
        key: pattern(16, 24),
        second_key: pattern(96, 64),
        iv: pattern(200, 16),
        aad: pattern(85, 12),
        input: pattern(0, 32),
        output: hex!("172acdf3353a64bb807958ca7703a285334333c802a6f7ff459dc1633d9b7d0b"),
        tag: hex!("d1bcf92e35983fc0ff64579c9a0123e4d76f5a290abfd5d064528022c234f814aee839cafadc262761c686a34699951e\
            171d592fe044992b91ef80c27fb9f18c"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes192CbcHmacSha512,
        key: pattern(19, 24),
        second_key: pattern(99, 64),
        iv: pattern(203, 16),
        aad: pattern(88, 20),
        input: pattern(3, 272),
        output: AES_192_CBC,
        tag: hex!("fc56e187a2d12a66778118d98be25b982d1e50e06f777e844b8728cb2b71ef6e376421e49f4382424394a08af4cd1b0c\
            c0769569bfce1aa98f1d836f0a1ad1ee"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes256CbcHmacSha1,
        key: pattern(16, 32),
        second_key: pattern(96, 20),
        iv: pattern(200, 16),
        aad: pattern(85, 12),
        input: pattern(0, 32),
        output: hex!("7245392b2f68962bfe41fb1fd8e0c8b5a7e1a2e5f293887df7beb9c8054704bb"),
        tag: hex!("3fd94db4a450ca59d53e86e0680cc942302358e8"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes256CbcHmacSha1,
        key: pattern(19, 32),
        second_key: pattern(99, 20),
        iv: pattern(203, 16),
        aad: pattern(88, 20),
        input: pattern(3, 272),
        output: AES_256_CBC,
        tag: hex!("eee19855411bd8ad3d440e68e72f17fb3a51d431"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes256CbcHmacSha256,
        key: pattern(16, 32),
        second_key: pattern(96, 32),
        iv: pattern(200, 16),
        aad: pattern(85, 12),
        input: pattern(0, 32),
        output: hex!("7245392b2f68962bfe41fb1fd8e0c8b5a7e1a2e5f293887df7beb9c8054704bb"),
        tag: hex!("b1b534ea016dd3bd17dae7024b79fed94400da6750031bb9398d50af7e25b23b"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes256CbcHmacSha256,
        key: pattern(19, 32),
        second_key: pattern(99, 32),
        iv: pattern(203, 16),
        aad: pattern(88, 20),
        input: pattern(3, 272),
        output: AES_256_CBC,
        tag: hex!("2204435f88089a1e37e46313607a3ce8b15784d7dd0043b5d09b3973b558630c"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes256CbcHmacSha384,
        key: pattern(16, 32),
        second_key: pattern(96, 48),
        iv: pattern(200, 16),
        aad: pattern(85, 12),
        input: pattern(0, 32),
        output: hex!("7245392b2f68962bfe41fb1fd8e0c8b5a7e1a2e5f293887df7beb9c8054704bb"),
        tag: hex!("058342dbaabf5a71621afdb21bd3b1270c1fd7f25cac2ed1f5a289b5c1af775562ed89ee00296bae1e992574bae4b73c"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes256CbcHmacSha384,
        key: pattern(19, 32),
        second_key: pattern(99, 48),
        iv: pattern(203, 16),
        aad: pattern(88, 20),
        input: pattern(3, 272),
        output: AES_256_CBC,
        tag: hex!("a7ea0fb584645d8177c8014b80b0c28930a1b8a8be602f79fb90234c21d8fd7f46fdffe4b27491a24b0765533ae7c22e"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes256CbcHmacSha512,
        key: pattern(16, 32),
        second_key: pattern(96, 64),
        iv: pattern(200, 16),
        aad: pattern(85, 12),
        input: pattern(0, 32),
        output: hex!("7245392b2f68962bfe41fb1fd8e0c8b5a7e1a2e5f293887df7beb9c8054704bb"),
        tag: hex!("33d605665b64a749fb65ec7661405843a91239b6625e6d0f8761f0a8c981a6fe8d1b50ce5f907b1c7d9410f3060f893f\
            14350e8521bdabc52453609fd64f675c"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes256CbcHmacSha512,
        key: pattern(19, 32),
        second_key: pattern(99, 64),
        iv: pattern(203, 16),
        aad: pattern(88, 20),
        input: pattern(3, 272),
        output: AES_256_CBC,
        tag: hex!("b6b5c334f24252cdb375a52f5d49d8a16c1e0198f8377a62346b98234c202b5dd322a025d3133c74d5a6d1d4c15ac1b7\
            deeff8f225c376b6d06340b337053dbc"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes128CtrHmacSha1,
        key: pattern(16, 16),
        second_key: pattern(96, 20),
        iv: pattern(200, 16),
        aad: pattern(85, 12),
        input: pattern(0, 32),
        output: hex!("1562f0ab43338d6ea954907a0b1eb12b74a8e04fbfe17ac9328c393562914625"),
        tag: hex!("b95a676f625d50d7cde8e7141cc3abbc21bb0371"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes128CtrHmacSha1,
        key: pattern(19, 16),
        second_key: pattern(99, 20),
        iv: pattern(203, 16),
        aad: pattern(88, 20),
        input: pattern(3, 272),
        output: AES_128_CTR,
        tag: hex!("aaf046f7a9b9db55ed651696e1a73df447f57695"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes128CtrHmacSha256,
        key: pattern(16, 16),
        second_key: pattern(96, 32),
        iv: pattern(200, 16),
        aad: pattern(85, 12),
        input: pattern(0, 32),
        output: hex!("1562f0ab43338d6ea954907a0b1eb12b74a8e04fbfe17ac9328c393562914625"),
        tag: hex!("68565e4e20c01302607b25c99c458accea783ed5e783cf6d432500afb4626bfb"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes128CtrHmacSha256,
        key: pattern(19, 16),
        second_key: pattern(99, 32),
        iv: pattern(203, 16),
        aad: pattern(88, 20),
        input: pattern(3, 272),
        output: AES_128_CTR,
        tag: hex!("a3ebead29e6c7de7557f70f709cc9d98f8f82bc441f53918cfaee1b72825fe5b"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes128CtrHmacSha384,
        key: pattern(16, 16),
        second_key: pattern(96, 48),
        iv: pattern(200, 16),
        aad: pattern(85, 12),
        input: pattern(0, 32),
        output: hex!("1562f0ab43338d6ea954907a0b1eb12b74a8e04fbfe17ac9328c393562914625"),
        tag: hex!("de102106c8db6342646d0f0836c27a00a78f9f79c1197939c91a1fa374fa3003ee99986b91464c0f3f8a6a077aa18e62"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes128CtrHmacSha384,
        key: pattern(19, 16),
        second_key: pattern(99, 48),
        iv: pattern(203, 16),
        aad: pattern(88, 20),
        input: pattern(3, 272),
        output: AES_128_CTR,
        tag: hex!("2bdee8988eb17ac1878c3762e27dcce1b9cd3158e2a241999927f15161b876883e7b3d7f9973d57d1f1bea1c6351eb11"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes128CtrHmacSha512,
        key: pattern(16, 16),
        second_key: pattern(96, 64),
        iv: pattern(200, 16),
        aad: pattern(85, 12),
        input: pattern(0, 32),
        output: hex!("1562f0ab43338d6ea954907a0b1eb12b74a8e04fbfe17ac9328c393562914625"),
        tag: hex!("1dc32a41b15e49c5a20b8f867b39014906b26f3c51f1cd9db77a388f5322e9dae0921d2ac1399110725460590e5997e1\
            b1a0fb37162dba68036204db3821054c"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes128CtrHmacSha512,
        key: pattern(19, 16),
        second_key: pattern(99, 64),
        iv: pattern(203, 16),
        aad: pattern(88, 20),
        input: pattern(3, 272),
        output: AES_128_CTR,
        tag: hex!("75dd49612f4477866a8e197fe42feadfb48fccf245b37c04d1a59f5af9f70637a2ef6f7a16bc966145fac54981407088\
            c1a93932a86acc331a9eb545d8c43850"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes192CtrHmacSha1,
        key: pattern(16, 24),
        second_key: pattern(96, 20),
        iv: pattern(200, 16),
        aad: pattern(85, 12),
        input: pattern(0, 32),
        output: hex!("0d4dad7438b515c6266574db2f2dbe35476dd9d302530f8fc4612a451fcc743e"),
        tag: hex!("db4d1d69f362cbaae3690942f11504326a8f72ed"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes192CtrHmacSha1,
        key: pattern(19, 24),
        second_key: pattern(99, 20),
        iv: pattern(203, 16),
        aad: pattern(88, 20),
        input: pattern(3, 272),
        output: AES_192_CTR,
        tag: hex!("72edece475239052b2e4b5941b63a17fa64d6908"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes192CtrHmacSha256,
        key: pattern(16, 24),
        second_key: pattern(96, 32),
        iv: pattern(200, 16),
        aad: pattern(85, 12),
        input: pattern(0, 32),
        output: hex!("0d4dad7438b515c6266574db2f2dbe35476dd9d302530f8fc4612a451fcc743e"),
        tag: hex!("14de64b0cd35e988bb67a8247d2e52723fbed59fe27b4cec92ef89f6e121eac2"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes192CtrHmacSha256,
        key: pattern(19, 24),
        second_key: pattern(99, 32),
        iv: pattern(203, 16),
        aad: pattern(88, 20),
        input: pattern(3, 272),
        output: AES_192_CTR,
        tag: hex!("944a0fcfb7aa36e45fa0677d3c9a6f894fcebfd2cb47298c5906dcc699d9c9e7"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes192CtrHmacSha384,
        key: pattern(16, 24),
        second_key: pattern(96, 48),
        iv: pattern(200, 16),
        aad: pattern(85, 12),
        input: pattern(0, 32),
        output: hex!("0d4dad7438b515c6266574db2f2dbe35476dd9d302530f8fc4612a451fcc743e"),
        tag: hex!("7b422da6579bb88a174e44a76d52e4dbb48c5d24ba3c5b19e34e27043b150feffae07c4aac37c6156f9209e23f499ede"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes192CtrHmacSha384,
        key: pattern(19, 24),
        second_key: pattern(99, 48),
        iv: pattern(203, 16),
        aad: pattern(88, 20),
        input: pattern(3, 272),
        output: AES_192_CTR,
        tag: hex!("2658649b7540130683d87872fb062d5e95491ae5de1b57c2fccf5cba3679e2cfa69e4aff72d69029cb46cee021947567"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes192CtrHmacSha512,
        key: pattern(16, 24),
        second_key: pattern(96, 64),
        iv: pattern(200, 16),
        aad: pattern(85, 12),
        input: pattern(0, 32),
        output: hex!("0d4dad7438b515c6266574db2f2dbe35476dd9d302530f8fc4612a451fcc743e"),
        tag: hex!("00a3c7d47b613e75ae3de63a3636c27c1f375bd478cb0c4e206c4c7d8cd6d8871f11e8110d04195022d70376a99d689a\
            b10249a06a8656ea27ab2161ca669812"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes192CtrHmacSha512,
        key: pattern(19, 24),
        second_key: pattern(99, 64),
        iv: pattern(203, 16),
        aad: pattern(88, 20),
        input: pattern(3, 272),
        output: AES_192_CTR,
        tag: hex!("dac5f41822d72e79b1058eb6a6a02512dc45797286195d7ec609ecae05a8c9db9a36e727dc09ec202deb0108dfc2f9b0\
            3ebb8aa388a99cc49714e195c5f7aeb3"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes256CtrHmacSha1,
        key: pattern(16, 32),
        second_key: pattern(96, 20),
        iv: pattern(200, 16),
        aad: pattern(85, 12),
        input: pattern(0, 32),
        output: hex!("8f6af16be989b008d85ca35fd493fbd684aa7e6a991e84c306f06af9a9850ea0"),
        tag: hex!("b316c95a2493f29063833fc82f8d512664760231"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes256CtrHmacSha1,
        key: pattern(19, 32),
        second_key: pattern(99, 20),
        iv: pattern(203, 16),
        aad: pattern(88, 20),
        input: pattern(3, 272),
        output: AES_256_CTR,
        tag: hex!("9435f9fe071f1bc77d4f709c111ac0b1d3f329ae"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes256CtrHmacSha256,
        key: pattern(16, 32),
        second_key: pattern(96, 32),
        iv: pattern(200, 16),
        aad: pattern(85, 12),
        input: pattern(0, 32),
        output: hex!("8f6af16be989b008d85ca35fd493fbd684aa7e6a991e84c306f06af9a9850ea0"),
        tag: hex!("28cfef3cfafa9ba12edf2378212ac7214cdc1ad4744416b5ff3dfb7396f07878"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes256CtrHmacSha256,
        key: pattern(19, 32),
        second_key: pattern(99, 32),
        iv: pattern(203, 16),
        aad: pattern(88, 20),
        input: pattern(3, 272),
        output: AES_256_CTR,
        tag: hex!("db6865b38d0c631a680f232db1343e7cd852ffdcad6cad5801d6b59f6cc94723"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes256CtrHmacSha384,
        key: pattern(16, 32),
        second_key: pattern(96, 48),
        iv: pattern(200, 16),
        aad: pattern(85, 12),
        input: pattern(0, 32),
        output: hex!("8f6af16be989b008d85ca35fd493fbd684aa7e6a991e84c306f06af9a9850ea0"),
        tag: hex!("c73fc134f83941eb0661741387849ff5d8226a40aaa58b708917bc135a85435d6e0b31924a1fd0989f15cccde2923fe5"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes256CtrHmacSha384,
        key: pattern(19, 32),
        second_key: pattern(99, 48),
        iv: pattern(203, 16),
        aad: pattern(88, 20),
        input: pattern(3, 272),
        output: AES_256_CTR,
        tag: hex!("b78cb9f0dddb528b409c7aef70e834d3c3f01f6876eff7cb8f235096c1f98f39c3674e3e59c0ceaae395d196f8b13e51"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes256CtrHmacSha512,
        key: pattern(16, 32),
        second_key: pattern(96, 64),
        iv: pattern(200, 16),
        aad: pattern(85, 12),
        input: pattern(0, 32),
        output: hex!("8f6af16be989b008d85ca35fd493fbd684aa7e6a991e84c306f06af9a9850ea0"),
        tag: hex!("88d036c3cd0cfce60937a9f6668f7ea1cb80b89ef6f1d19d789be4a7ff04ef9fd15ca378f3ed388eb9727b974988c856\
            b9827a1b3148e00189165d61e273726c"),
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Aes256CtrHmacSha512,
        key: pattern(19, 32),
        second_key: pattern(99, 64),
        iv: pattern(203, 16),
        aad: pattern(88, 20),
        input: pattern(3, 272),
        output: AES_256_CTR,
        tag: hex!("87a3e77a21645328e488e14fdf1e296ba46c5ad7a24ba695a7d56f1b91551464a02be7d24b253e34ac8809dba44d9fbd\
            efc01c2882e15bbab6e977dda299d45e"),
    },
    // the Ed25519 page of its authors; sign.input
    KnownAnswer {
        algorithm: Algorithm::Ed25519,
        key: hex!("0a47d10452ae2febec518a1c7c362890c3fc1a49d34b03b6467d35c904a8362d"),
        second_key: hex!("34e5a8508c4743746962c066e4badea2201b8ab484de5c4f94476ccd2143955b"),
        input: hex!("c942fa7ac6b23ab7ff612fdc8e68ef39"),
        output: hex!("2a3d27dc40d0a8127949a3b7f908b3688f63b7f14f651aacd715940bdbe27a0809aac142f47ab0e1e44fa490ba87ce53\
            92f33a891539caf1ef4c367cae54500c"),
        iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Ed25519,
        key: pattern(19, 32),
        second_key: hex!("326657897b3c6155cf0676c703eb51681a528fc33ab1852a2ddcba2bdbe8384d"),
        input: pattern(3, 263),
        output: hex!("026976d96b132ae3ca90310aafa088a44edbe66dd510f61c5e47a6e7de1cb47645de643e6f0b640b83649ebbcf0fe358\
            4b336a5967c14b3898298a1de7a3d707"),
        iv: &[], aad: &[], tag: &[],
    },
    // RFC 7748, section 5.2; rfc7748.txt
    KnownAnswer {
        algorithm: Algorithm::X25519,
        key: hex!("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4"),
        input: hex!("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c"),
        output: hex!("c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::X25519,
        key: pattern(19, 32),
        input: pattern(3, 32),
        output: hex!("be70f3d95ca1f4b9a789514b57a73ff45ba06917655862e4c7eb6a48f9d3b04e"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, FIPS 186-3; SigGen.txt
    KnownAnswer {
        algorithm: Algorithm::EcdsaP256,
        key: hex!("be34baa8d040a3b991f9075b56ba292f755b90e4b6dc10dad36715c33cfdac25"),
        second_key: hex!("04fa2737fb93488d19caef11ae7faf6b7f4bcd67b286e3fc54e8a65c2b74aeccb0d4ccd6dae698208aa8c3a6f39e4551\
            0d03be09b2f124bfc067856c324f9b4d09"),
        input: hex!("a3f91ae21ba6b3039864472f184144c6af62cd0e"),
        output: hex!("2b826f5d44e2d0b6de531ad96b51e8f0c56fdfead3c236892e4d84eacfc3b75ca2248b62c03db35a7cd63e8a120a3521\
            a89d3d2f61ff99035a2148ae32e3a248"),
        iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::EcdsaP256,
        key: pattern(19, 32),
        second_key: hex!("04202c7bbba93834d30e8717099286f162a68b6878b596a6aa4bc1822fd8084145f28d1b4f023f87adbbbfa14afd8a46\
            d51a14937a8021cacd8ca37f7210bb781f"),
        input: pattern(3, 263),
        output: hex!("92b85ba6409a1126049029b40b9004d61bafa5aa6dff4e3aa1305fc2744b52ad0a9dcf7efc3edb973743d56a75932c08\
            4daf378490087ca04e4abb8908d10226"),
        iv: &[], aad: &[], tag: &[],
    },
    // NIST CAVP, SP 800-56A; KASValidityTest_ECCStaticUnified_NOKC_ZZOnly_init.fax
    KnownAnswer {
        algorithm: Algorithm::EcdhP256,
        key: hex!("8087ab163864bfa81001c72f736b6d94e7612559ac4c847d06ba2171840684d6"),
        input: hex!("045a3955c54a49645ed818f3774ea10971a1db88c370d8966c5a6e88234ed5d82003b13f0dad73f64532f42b8b2fa6d1\
            450d9ab24896e95c24674298f2da07ccda"),
        output: hex!("0cb890a0dcc277c3dde0f91b4322a32e6365d7ec85316185d3286b4977849410"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::EcdhP256,
        key: pattern(19, 32),
        input: hex!("042f34f404dba282e6920aa285b3191f9d3dd4c9c1659fa26df035368eb807564bc7c26dd5a5a7181d154ffab6e5424e\
            25aa66dcdc1d97b4ecafb8c351d9fab108"),
        output: hex!("0edb3b0b241891cd33a1c76ea998ddcb27edc2ad375ad7bdf2de2e154c721f31"),
        second_key: &[], iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Rsa2048Pkcs1,
        key: sample_keys::SAMPLE_2048,
        second_key: sample_keys::public_key(sample_keys::SAMPLE_2048),
        input: pattern(3, 48),
        output: hex!("7df3a3bea7f9d41c84600b4a0736b9a6d19df248205cd7d459f777f68a7e3842037c816ff97dc691722d1231821c71c7\
            d4adda077c33d07685e8e257b6d46bd4f278534df8bdeedc5a3439318e2ce5de08e0847bde95dc5d8e1ac07f0c6b23fc\
            1d39bfcfa400c8e192de087b09aa7d41764ffbc74dd3d26e8d32ee3135145e7ed8c436da720a16fc7539169838041649\
            1bd0679c71d5c39f455669095ce521662cf7df111e1146a899fd8c11d11b795f81923035096281a78e6ca1de56c52c64\
            d2432415e231a756eadf35c7f1452226df7c810694a9d43880441edc200e1209338d3cbddfcdb64c83cefae8a6a316f5\
            4335aad6f26df4807738c5cf0f7fba3a"),
        iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Rsa3072Pkcs1,
        key: sample_keys::SAMPLE_3072,
        second_key: sample_keys::public_key(sample_keys::SAMPLE_3072),
        input: pattern(3, 48),
        output: hex!("8c4e70d6de1ef51106636ba6ae8f12dbcfbce4e32f9a27f09f9cce2a1df2a38a9c52a95055c9689d6ff0fe67026a0032\
            c0874401179eb666d7642af05eab3ac2ee5bb1d2c0ca69b4417a11253a9789bb0ff650903a4c570491971051766d278f\
            75b723e63b6a6c5508621e6f9bda29337f3b3d9d54ce403e414bbbab38ef4b62492092b2df76f918bfbc1585c3c8f526\
            af1d4a9e228e46824f8ca32b3b2dd151d9a25686522bcd163887f382149cfd883b10bcde6d9624af0b1fdf9e5796ffc0\
            1aa15fd324227dd727fa765371aec5e11ca904d9a78f0495b0f0d3d019fac06b3a7214247ea7f395a61aafb363f33491\
            367402fab743cbe5f71b433408d90c1e16e28ec9eb62f62967de3dbfe33cda6255849cdf6db5506ea31ac47a7db57e68\
            4203ef2b79e0e63f9f3e3127ef62bf36f628bcf36c032f700bcb290a4c0ba4c8c2a4db82c8031a8d45c898a8278b02be\
            979f53fdd1f180c16e30afdc8f893f354dc17e9a4933024403582f4a07c474dc630f3672f0df83f34055f9f065c95bd5"),
        iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Rsa4096Pkcs1,
        key: sample_keys::SAMPLE_4096,
        second_key: sample_keys::public_key(sample_keys::SAMPLE_4096),
        input: pattern(3, 48),
        output: hex!("83675caa358987138d00065447bc484dd471f7b0a1196993f896d6586dae2f170b079442e73f376f6b42b26dc8902572\
            8b0ad13a63ff22af110b4b9e7f6c6524af8fb701348a66d174f5f167a1ee05b3a0e6b52897d93f837308a120cacf1eaf\
            9fc22f040feba7286ecedc79830a98078d0375a96587725d8ddaa1a33bb17225645bf00de9793c82fe2d188587fb467a\
            0dbb4db7cbab0e932e682ee27789b167844dbd63cc02eb3234d6bcb6df9f73ea8a41d8bcc81f0e6d3a5c685a1fd63d5c\
            db5c5a6e25739bd68e46caf73e2fafa23766dba1dfe1a9a0a5d4dd4dac6405ca83ad163c0187d42137d040270069d06f\
            6502df3f841b3242b49cca5cacdb8da904f84f11f92f9c7190f223ab8f176418a185b52a49946d70afb37119c7209a86\
            5cf2dd0633eb69b12188cfaa24114cd215a9d439fcaca7e3b146313d4e5e1754e7d2899145532adf72e31249bcadd9e0\
            9644976acfb00176e591bc3898fe2634e8d38e69506f24852ac115049b1f1b73d55e688f44d780a3d477386569eba502\
            8fd743159576eefa6b9e0a1759a7f9c9a9a98e43a896807ed498b3e838f374cd068fc62c6f4b2bd0fed42c1cb5406576\
            efd09f0b61a7dd74613dee8f2370e0b05d93cb5097b0279feb3f16f60a2eb948b674cda21c87e333a41c527ed8c66b16\
            52ae2b536e9f7d357ef84693f186381f4851e33e91fb417a7b1a76251216b71e"),
        iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Rsa2048Pss,
        key: sample_keys::SAMPLE_2048,
        second_key: sample_keys::public_key(sample_keys::SAMPLE_2048),
        input: pattern(3, 48),
        output: hex!("7407e0355f8b99fa3159d7c69fe8933f475817ec29c2d9569110250d15a1241e5daf58151f4aa426df1ebd8d0ac16e38\
            edff9d9b0e86e304b7a021ab70ab514962bc616e506d71296689dd3e74731f6888fead627e4be1ed9e435dad871bc7a5\
            ee0e97dc6527fcb37a75fe857ccbec8514f104aae961af46d5eb8a7831662cba130f26c57deceb7a04a5f8e5c694a9c7\
            b886df011a89a37cecaf97001abb45926b96a17524fd8d82e50b4800d4dbae7ed5288416ae3108fe677f2b6f63a79892\
            cd3cbfdd02e8cac84d938c759ceb42864e1898b32dc624397f31ed2b5735c532a5c7781e0b2ec6893c97d930b7ab66f6\
            7f71f8178c9efbfb1e47a32c4e694522"),
        iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Rsa3072Pss,
        key: sample_keys::SAMPLE_3072,
        second_key: sample_keys::public_key(sample_keys::SAMPLE_3072),
        input: pattern(3, 48),
        output: hex!("704906889cc2c27393a6d44deaf887b62a92f48b2056d3fdde78f132d89fd1e953900d38a36220d0a187c3e1e615af38\
            9b09c47f05927fe21abdc75adb8dc17539edc488a1699b6394a7d4b925cc014101d34c1cd1c6b9f9ef8c67db932bb336\
            9c79ed0bc7c874e955302e8796d6ead582fc48b848346cc84e729af6e02daff3eff3a97344abf1cddba02bb6c39586d9\
            80ee9c1341f40c01c9ad5e4d4c983f84c8035944acc93e561cef6e70cf03f5d50d4e91a5972913e75d8405e827ba1ed5\
            dfea9576a3bd99579f15998c26e247b304f651bf009004c4092f33d016b4afe5d4d43270a0eec80e94a6cfd1a3e04341\
            89c45cd66aa044ca43e6726f313c537a75786244def7cb28d2fef0903096bc0d75503c3ad9f26ce8325220a8b7a7ad20\
            04e9a02e7bd1e3b5867a7c5ef0ee02cf7a469b581664c3b3626abd21a6140bc8db63c0a2f704fbd59857184d6eabba17\
            ecaa2e96d5c504ea798c1336de6a24c68456d93adcbf1e076fc7b0574b58783e4f80260a5ac7b40dc3b684b0aafecdae"),
        iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Rsa4096Pss,
        key: sample_keys::SAMPLE_4096,
        second_key: sample_keys::public_key(sample_keys::SAMPLE_4096),
        input: pattern(3, 48),
        output: hex!("066518b764b2557fcbe7fd7bb8a4776ffe363707a529ea0023d34bfd634bafd46b897d062478e0341f4874f2cc62d1de\
            151c4bf70eabf2e9f50ed8d3f9678a7d8edbe4453f3d01a7a579bdcb57d23ffa66b172152da3d4916372fb39cfd49279\
            cf79295731446c4d879394f4381d9a9cfd0785bb8aa2333c905bccfae71a254d21c96caa9fb8f199a60612be0348e8a3\
            ef034ce69f30269af37e7fcf8d314214d37f6d5221e493f20db7a24ff9dbc4007348ab50ae4aa4d57c5e11e693f69108\
            7d8f5f45450d26444c0bac9e6800b48241425145fbc3c62b9d4590406e1e456155052dd41256f09722eb92a1e7fa880f\
            6d140a41424d2889c89a92b57b9d20d248d28ae12045fc5c36da9bd7070e16f52c1c141813231f1081391ff992e8abb1\
            37027e3c3025c4d91df398a5e563a57848b5d1a16ba16039e9c26f03a788732721be5e4784022621d7da8d051962fa30\
            64b860c727fea8826f23567bd548582ed1ba25e8854622494139d1b77500942b8eab3a854568661f4942301d1f3627be\
            c308cc18514a4b91995ef325147e94987d4b551abd5d61a40a8532e8febfadfada82ea78243de57902eb952b68e3e96f\
            1899da971081807d81abfbbd0aa63974dc39dcc088891f9c505d8f3b896427a7bac86f0a69012d0e94428fffbfa8d13f\
            7e6d2043b52df61e8445878722c74454efd29bbdcf994394f60b0762e0338503"),
        iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Rsa2048Raw,
        key: sample_keys::SAMPLE_2048,
        second_key: sample_keys::public_key(sample_keys::SAMPLE_2048),
        input: pattern(3, 256),
        output: hex!("730b38dba630ef120e8aa95447abf5fb82ac725c17b6720ee593d5997829a76917579ce99a99f880726325179583eb29\
            51c86481d8c9caf653a6a4300836452771a9bcc79dc44c0b7cb6bfe47630414b2f18b0b53f0fd1cfa25849e27740e374\
            09e24db74d9407102087443802d4c26ef907973c43bd361c4b113fd819386da26674e4f9453a593693ef16cfc8fa6b1f\
            e12b8cb07c41719864e52cd57dd4a3da4ff46f4b93a83b0798b5e1cb10f5ccf7089c79d45db648c1b949fea1a6206b75\
            e1b4c5f8bd5ff14e7312176db0c306ec77a3112298694a482dd0aa2a7be1b25dbd9bb8a4e004d56a00a4926739925ef0\
            453b0a3fb83e74b2e91c479a7c4da4ee"),
        iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Rsa3072Raw,
        key: sample_keys::SAMPLE_3072,
        second_key: sample_keys::public_key(sample_keys::SAMPLE_3072),
        input: pattern(3, 384),
        output: hex!("21d06e7992e9416d1c117bc4f5a178e244e3784162386712da82f3a31a258f1a1b05afae9f2874e9d3ac13b9b23518c5\
            f41afd3b92bdcf145982ab9319a0c90820a72b329d3ccfe0973285e6ab3faf57a34bbae6f6d2ee850532d7a97b9ec0d8\
            4ce1f8793e3d3eaaf959c58a21c38b985bcf3cedcd8b09a3f542ebb713a677f5281bcfd3e9fd7dd51699bc9490f0fdf8\
            e0d4759730e1f6e25f7f6c0d20d1bca3e32f5d465cbdef7fce003dc7f83605838ff132af6cfec6bad8b6cbed9ad43b29\
            af0b3d5fa2ac02423fb58363c9245ce187fa6a4b0aaa5945e866a4586533b697b857287ba720599a2b1df1d762541245\
            f3df4478d276ee79a0a4dcafb759aadfda744f50d2399351facd4c313d16eb3a370f7ddf5818622841ec1a9aaa7c4bb5\
            c816815b8160ba810af95b822c3bc1991e886c2052e9a44e6552838f0abccb2c9692e20de9d2988fa21460f87767bbd3\
            9f91b38b25a54fcdeb81f951ab1594487adee9cd7dcc601b67ad806f70a5d285f3db1a005db108f922a6fc8070ebedbb"),
        iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Rsa4096Raw,
        key: sample_keys::SAMPLE_4096,
        second_key: sample_keys::public_key(sample_keys::SAMPLE_4096),
        input: pattern(3, 512),
        output: hex!("62f4e127609aa5d443a77d92bcf7c398da134d2e36a6567e999914f9716ef4006f0f60c34e8303042d09d4b11d02b008\
            ebadf28268fe37e5df4a9ea1120760fd08f08e4e3ada5139588a5ae2a0c338d9628083c3aa11619eedfdc0caac120b16\
            00591711242e97885da81658f06301216d931a05f9193da851ae3e7560e60e30af7c7f30d53297e7d14f71bca937219b\
            c6d023bed37f73c72fea5c8b7c9a7b0cd59fa2838ad1e38545c2bc681c38d472238649751fa00279ee20ee732598ed44\
            4b2a1a35d51b3604dda4d60d20fa6a7409206dc75cc45a713162af311fe0e592fcb2873122db783644ebd160f8f34368\
            c4733d0f2d7f738db5b25833f7b73c598dc95358166a2d27b36ec3ea45e91101b1fcb9a8d4249bdca03bf315f3a32749\
            eeaccedecc321cd6e8bbc3415f91b05f0906ee8867bd6d45345d9d9076b05964c5fac976006d9140c25db27cd36da56b\
            1a832b293b90a165d184565f50f6cfc060ada89f01b16396748ed393a1f2e966725d4b344eaf6d7772d2f5223fe19d9e\
            d3db155af771332cdfef4f21522bd250e59acad7e4dde955afe3b91d328a0ff1918317629a85c722c4538977638e9a6e\
            4bb3829c86d7e22cc77a2c1e545ddaa1d37c9e8ba89fc0f34a86c61145940fcc8facdc4d54de00fbbd94dc64266dec33\
            537ff259ad86fc387f33412c972d0601af93a215453b829e6ff124c321582701"),
        iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Rsaes2048Pkcs1,
        key: sample_keys::SAMPLE_2048,
        second_key: sample_keys::public_key(sample_keys::SAMPLE_2048),
        input: pattern(3, 48),
        output: hex!("2b8966767c427d016793b1bf489d3c1111672c6c03c37e6e8283da480c27c41d2b9366163f174817ccd1fb6b262d6f4b\
            a3656f098889e2fbf48203ef5cbce0359c71498870c4789efa5e4a2e148315fa9fe0f3c489923c4a57b28c4820aede84\
            75cab2f191de28fbd077eaf40f20e9d1b571a39b4105be06a45fde7d468c62008f819d6af7c6ba4408e3bcb86aa9476c\
            8762c66ee8b634936a35ba86a7b50a173ecf4a58cb6a70ad39700f33022d2b2f3a9bd3889849a5f0547704f7e9480cfc\
            68ec0ebf04c859afea1ca286c0031dd2fc680ad44586a70eaef756e57f27c0ab11f005450abf441f110b3fbf791a3918\
            46aec7442a76978b333710b9af5f9429"),
        iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Rsaes3072Pkcs1,
        key: sample_keys::SAMPLE_3072,
        second_key: sample_keys::public_key(sample_keys::SAMPLE_3072),
        input: pattern(3, 48),
        output: hex!("19fdf4d3e3078ba4c8267bad3e4e7f8846db98d8162872a80a2aea0aa9a6034b78e4b908cbe9223c93dc0f54ef402b41\
            b7ffc67f1add11ed5ff96cac7bcdcdfa944183840d0b9e2cebaf8c3f61b20a6be5945c6d608bd6be1bdd7e282ec3158c\
            5aacd7108b30e4ab63bcd1179d0f3f23cf55805f9306a398e3e076691da90bc078596b1f68e56fab24bb7079dde6e06f\
            9ceff7c02f5be430d03b63dd1a6b88e3161424402fb0b989583ac6290e96cff9bc57c2cb5c818bb0fcd062abc9f56170\
            0ec96331d2822a064a2c6c95a6353f7ffbcfc737bd6e205c29c400c94afb7e149f8d908241136e9206d379244ca67c08\
            e63a7356a825e161fbb82018d0c5c5daf31be87a5779ed408bf57b131d288a0a348aa2a82b0215d981db84dbbc6e6857\
            cf8c43877296be90ca0fe9dd8fc852e17a65d68fe2557343a30638b5d2767e73c8f78acd7b07bfb2980d9e6dc722f1e8\
            a8ca34edb854b0a26dc08ea3494d47431b4e4c002f2330434aa53cefd263b3c631ade2aded2d540100f76ef415c3dd4f"),
        iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Rsaes4096Pkcs1,
        key: sample_keys::SAMPLE_4096,
        second_key: sample_keys::public_key(sample_keys::SAMPLE_4096),
        input: pattern(3, 48),
        output: hex!("a580f6a7b7e241b569d8a6f492e02c5f698e6034db6fbf4a41547ed79651a741c8a9c704ab337469c002805c2ba9c453\
            640705b1164b2b523e273746141675d42f91a4672602df07f42beaa7d71d8c6d40c89a5f49dae8ca262f7271a4773b2e\
            36c7da58938605f3da430a9e9f0f6428c81f3d10c97bd5d79be3cdd63bd0f8035e402eb130a54c2cb0dd856a19328b6e\
            a6ba40ae3fd1e9ec914041879f7cc6b01c9d651a47c0cd187cd48808b4f6c33f74a6b7c078be5ac60ff80b400e078502\
            37448ab6593b48710bb954ed602facfb793f23821f8ca261702a77a0059ba649dabf5376d9022920ef4fb5b7431ea8dc\
            8ef9d02cd6cccb1bfa33269af357a53af141fa98c330e23b6fda4b8e25a30096e84fc83e8cbc00e4dbfbc3d1310f2aae\
            b5fe89e48b18a96d2d7641f538295a924b8bbc0775c0e2f015a622196b812048236e02b656022f88ee2c57f2d7c01725\
            2f1ce6f1628fe58624d83d6805fe86fa4488f72c5d2d06c3df23ac64cf11778d151e1c6b5023289c5c94eae361e0a57b\
            7d429527729374b01facf07a11727f6792de1e3109f3520f86450b48a809023900e494e12e1b09fb3c3fec7b8f479920\
            e0cff436a6d18e624e90d8e4dc5d959dc40bb05ca141065a178b41c187e3f51da5c4f0779d32e1d33889e084c5c07ed5\
            08c24f3f314cb9cfc070c097df3e8dab7d376bf9f2be409005089e4f0415c079"),
        iv: &[], aad: &[], tag: &[],
    },
    // computed
    KnownAnswer {
        algorithm: Algorithm::Null,
        input: pattern(3, 263),
        output: pattern(3, 263),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    },
];

/// A part of a pattern in which no two blocks are alike.
const fn pattern(start: usize, length: usize) -> &'static [u8] {
    PATTERN.split_at(start).1.split_at(length).0
}

const PATTERN: &[u8; 8704] = &{
    let mut bytes = [0; 8704];
    let mut i = 0;
    while i < bytes.len() {
        bytes[i] = ((7 * i + 31 * (i >> 8)) & 0xff) as u8;
        i += 1;
    }
    bytes
};

#[rustfmt::skip]
const AES_128_CBC: &[u8] = hex!("fc028a296881ce21281a8a077e3c592998fb8fda242c1e79ea56123b545f1b584aace5ccab213c8969a084ca9c753048\
            630f6eee1e4c2c7d16a8113f4892104d9f736f7d3db159cf750bcee3a12f3b89edda7adf88a138c2d9e3ed28e7fc0fda\
            3247f6334053cb323981d718b609870946f60fe5e3c812e346b13a8be5f9f84387b41c0438cf3d00db5c25c2b23b868f\
            b901e392a3b23486c187bbfde6cbe0dd1ff1e1ec79572dbbba761c5359388b95d654f4e7a9782608e0066dd507eb92de\
            eb5f8aa725f41e9074d9e0741933c8123cfc935d0ce25cc54e5735eac434b748262ad8668d01f023d5901c6e88b33767\
            b7ccbed2cc5634cdfb7a35a673a17e5177bd87f189e94359c3f2facd99b295ef");
#[rustfmt::skip]
const AES_192_CBC: &[u8] = hex!("cca62149e54e78c7f6eb5c3f45420932557e6800e54c608fff796700bf0209cd5f4f01f69d48ff519039f9875a8207f5\
            be9138cfc9da251e9e1356b3990c4c6f852e18bca06f12a5845304733182965a299b62e0bb486fcef8aea435741c4d66\
            a77b8227acc1d2e941d58d2ac8aa6026b0672cc21eb71fe5e089e6bdef67045d6636cb5e58b4db3c33aa474210982b3c\
            edeef8e3a96a0783b788d5a2faeb1e6c5ac559205a3a126c6495775808723fe48bd65deaeccf797da4b66eeb35c7d6e4\
            0857aa9a17d905ac558c5ed7a467c50349b444e9ee80a8aab1155c1ef45affe6512bd1ac26f8536dc8a176a9ad3079d9\
            0b5ea1a9a202bdee03ea2c85ae22bed0306069049d4b8eaa6ed78b4e57f96253");
#[rustfmt::skip]
const AES_256_CBC: &[u8] = hex!("3d88edc713828a7ba8a130b925218760a0d4ea4b0a3f42568c875d781349a252b29ff67e9a68b63dbe709d24a65cd735\
            481670287d759b6f6623e62c9e9d4b1db281c887da09dbafb3f06ebd9d09d573ec7ad4aa604172b7316346231017e21a\
            9ff1aa27aa962f196518d8d53c9a7edd35c77411bdd67399e8d6cea5c66fbb37d41578f587f401c811c95c47b7ad5b21\
            05422bf725bb439d009e4e4b846c23bd1e1f02c0780b46c434ce648d606d68029f6119a02d909d84570484ddccbe717e\
            63f9682a6039d48b468a85cc7d0b1ec5bcbf96f0d07562112b33ae55f815f13049cc503fbd2143ce6c986075aa50b771\
            6b1aafb8d08314924c19cd1391466ecc37a103a41c2aa6936d082444a147daff");
#[rustfmt::skip]
const AES_128_CTR: &[u8] = hex!("7d6566e3c1b6e86dc17c6ac1876eb8da772e91d276cf9255cde903bf084ddfda4e55eaf250e20c58930b50a115583ba7\
            0c21fb3127fef63e48c4bb49e344a242c04c4aa5932f19e6a6ee7496b883ca7935ad5060a78bc15fd936ca51a73cdd19\
            dced197c03089aed676580b05f090a8a6fab0d96e62f159a3a20085cd0c4c3ad076edc510a10caa14ac3e16f8a77abf9\
            2e051bdd47471903678a7d337d0fbecd563c3015dcf2f1f523433db7b716a441b9d8dc706c3cebd99ed3734faf2d1517\
            216aab5f3c2bfabef95e99fbe267aeaa327d881ae35c33176608f290b5bdfdb9603d83bd58c7edce1ae3f476dee3f1ba\
            568d39dec894a25f5659e5a783338e03c95b01bc4779d21b754b55466aa3a32f");
#[rustfmt::skip]
const AES_192_CTR: &[u8] = hex!("0927116c66ff706426db77ceabfdfa1c9bffd3eee4cb38dc6e28601bdcabfe6e778c78f6e488734fe65ac518ef170a16\
            d564edb9420626f605e25176a913f7c6ede2a65a7ab0651c5d816956f8c85cee62f2fde78c58bb9e6effc1a681f4c72d\
            2dce3e1c42a7f3a6432369d3b725222928f710626d99343d377fa9e26a82d6a021df2ea4377d1624beb2dfb5311a72cd\
            44b79c29257de6376f73a776af789d3e2e16b6467ea68ca3e57b4aaebac3d1656b4846f80dbef19455db853e0096313a\
            88c526c16cd28866800081f5d4b31bc16034b5a68aad3b6bdc6b1a38cdd10145404492526f0b136847475b0e733cd237\
            5e3de1ec82adff4b0bfac1eca5ea937d585f711b955ab00f7555b00fd4a6fc1b");
#[rustfmt::skip]
const AES_256_CTR: &[u8] = hex!("7cd8aa7e555d5f4d1a00e674dc00abb0f7c8273f58032feac1219fd421567303b3002ea33623dfc5e8ef496f6449a8c2\
            0f39a7c3849a54ceb5c55e753cee2684a742735b1a2d82cf65dfe29e5a6dc90e2aecac0b85f3d99c05188b75142ae866\
            6c222e0d1ccbb9246b5cfddeab122663bbab4e6c8a7f14513d82768bd052a99b4401238841bf187cd1db2ce05d39a43e\
            50e8ed957cfa2e215f15adec38cd7821007ec32cbdc5e24536cc6327ed400aae7e6b79f34b603e5259574116d3741604\
            c70427db8fd0a8f0a42f112eb77cc1db31d79cd188f437f9282eb12a3f77b4e609d135534acb6ed577ad6f21cf39b84f\
            7b2f92407cb539bdc711dd599b62e2d180d1465100f48ca2942d439a93826ff7");
