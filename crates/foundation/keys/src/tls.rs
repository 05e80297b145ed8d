//! Configuration of TLS: version 1.3, one key at each end, no certificates, no resumption.

use crate::fingerprint::Fingerprint;
use crate::folder::trusted;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, OtherError,
    PeerIncompatible, ServerConfig, SignatureScheme,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Configurations of a key for the server role and for the client role.
pub(crate) struct TlsConfigs {
    pub own: Fingerprint,
    pub server: Arc<ServerConfig>,
    pub client: Arc<ClientConfig>,
}

impl TlsConfigs {
    /// Makes both configurations for a key. They trust the keys in the list of `folder`.
    pub(crate) fn new(key: PrivatePkcs8KeyDer<'static>, folder: &Path) -> Result<TlsConfigs, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = provider.key_provider.load_private_key(key.into())?;
        let public = key.public_key().ok_or(Error::General("a key without a public part".into()))?.to_vec();
        let own = Fingerprint::from_public_key(&public);
        let certified = Arc::new(CertifiedKey::new(vec![CertificateDer::from(public)], key));
        let verifier = Arc::new(Pinned { provider: provider.clone(), folder: folder.into() });
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(verifier.clone())
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(certified.clone())));
        // No session resumption: each connection proves its key again, so that a key which was removed from the list is rejected.
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(certified)));
        client.resumption = Resumption::disabled();
        client.enable_sni = false;
        Ok(TlsConfigs { own, server: Arc::new(server), client: Arc::new(client) })
    }
}

/// Returns a placeholder name. It is never checked, because keys are compared instead of names.
pub(crate) fn no_name() -> ServerName<'static> {
    ServerName::try_from("unrack").expect("a name")
}

/// Verifier that accepts a peer if the peer's key is in the folder's list and the peer proves to own the key.
#[derive(Debug)]
struct Pinned {
    provider: Arc<CryptoProvider>,
    folder: PathBuf,
}

/// Error for a key that is not in the list.
#[derive(Debug)]
pub(crate) struct NotTrusted(pub Fingerprint);

impl std::fmt::Display for NotTrusted {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "the key {} is not trusted", self.0)
    }
}

impl std::error::Error for NotTrusted {}

impl Pinned {
    fn check(&self, key: &CertificateDer) -> Result<(), Error> {
        let theirs = Fingerprint::from_public_key(key);
        // If the list cannot be read, no key is trusted.
        let known = trusted(&self.folder).is_ok_and(|all| all.iter().any(|known| known.key == theirs));
        let refused = || CertificateError::Other(OtherError(Arc::new(NotTrusted(theirs))));
        known.then_some(()).ok_or_else(|| refused().into())
    }

    fn check_signature(
        &self,
        message: &[u8],
        key: &CertificateDer,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signature, algorithms)
    }
}

/// Methods that [`ServerCertVerifier`] and [`ClientCertVerifier`] have in common. A macro, because each trait must implement them
/// separately.
macro_rules! checks_of_raw_keys {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            // TLS 1.2 is never negotiated.
            Err(PeerIncompatible::Tls12NotOffered.into())
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            key: &CertificateDer,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.check_signature(message, key, signature)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        key: &CertificateDer,
        _: &[CertificateDer],
        _: &ServerName,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(key).map(|()| ServerCertVerified::assertion())
    }

    checks_of_raw_keys!();
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        key: &CertificateDer,
        _: &[CertificateDer],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(key).map(|()| ClientCertVerified::assertion())
    }

    checks_of_raw_keys!();
}
