"""The example model_manifest.py beside model_signing itself."""

import importlib.util
import pathlib

import pytest

model_signing = pytest.importorskip("model_signing")

EXAMPLE = pathlib.Path(__file__).parents[1] / "examples" / "model_manifest.py"


@pytest.fixture
def example():
    spec = importlib.util.spec_from_file_location("model_manifest", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    for name, size in [("config.json", 20), ("empty", 0), ("shards/1", 200_000), ("shards/2", 65536), (".git/HEAD", 3)]:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode() * (size // len(name)))
    return folder


def test_the_manifest_is_that_of_model_signing(example, model):
    ours, theirs = example.Config().hash(model), model_signing.hashing.Config().hash(model)
    assert ours == theirs
    assert ours.serialization_type == theirs.serialization_type
    assert len(list(ours.resource_descriptors())) == 4


def test_links_and_unreadable_files_are_errors(example, model):
    (model / "link").symlink_to("empty")
    for config in [example.Config(), model_signing.hashing.Config()]:
        with pytest.raises(ValueError, match="link"):
            config.hash(model)
    assert example.Config().set_allow_symlinks(True).hash(model) == model_signing.hashing.Config().set_allow_symlinks(True).hash(model)
    (model / "link").unlink()
    (model / "link").symlink_to("/proc/self/mem")
    with pytest.raises(OSError, match="mem|link|Input/output"):
        example.Config().set_allow_symlinks(True).hash(model)


def test_a_signature_verifies_until_a_file_changes(example, model, tmp_path):
    key, signature = tmp_path / "key.pem", tmp_path / "model.sig"
    ec = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ec")
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    private = ec.generate_private_key(ec.SECP256R1())
    encoding, text = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    key.write_bytes(private.private_bytes(encoding, text, serialization.NoEncryption()))
    public = tmp_path / "public.pem"
    public.write_bytes(private.public_key().public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo))

    signing = model_signing.signing.Config().use_elliptic_key_signer(private_key=key)
    signing.set_hashing_config(example.Config()).sign(model, signature)
    # model_signing's own hashing verifies it, then ours.
    for config in [None, example.Config()]:
        verifying = model_signing.verifying.Config().use_elliptic_key_verifier(public_key=public)
        if config:
            verifying.set_hashing_config(config)
        verifying.verify(model, signature)
    (model / "shards/1").write_bytes(b"other")
    with pytest.raises(ValueError):
        model_signing.verifying.Config().use_elliptic_key_verifier(public_key=public).set_hashing_config(example.Config()).verify(model, signature)
