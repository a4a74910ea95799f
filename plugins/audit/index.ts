export type {
  AuditEnvelope,
  EnvelopeFinding,
  EnvelopePrincipal,
  PresignConfig,
  RawPayloadRecord,
  SignedEnvelope,
} from './envelope.js'
export {
  AuditBackpressureError,
  AuditError,
  type AuditErrorCode,
  SignerKeyError,
  type SignerKeyErrorCode,
} from './errors.js'
export { type Ed25519, loadLibsodium, loadSodiumNative, nodeCrypto } from './signer/ed25519.js'
export { type GeneratedKey, generateKeyFile } from './signer/key-file.js'
export { LocalDevSigner, type LocalDevSignerOptions } from './signer/local-dev-signer.js'
export {
  keyIdOf,
  parsePublicKeyLine,
  publicKeyLine,
  type Verifier,
  verifierFromPublicKey,
} from './signer/public-key.js'
