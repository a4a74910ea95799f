// The audit log as a library: writing, sealing and uploading it. Loads no policy schema, and none of the tools.

export type { WitnessConfig } from './cosigning/config.js'
export { tryLock } from './files/directory-lock.js'
export type { FileSystem } from './files/file-system.js'
export { callerIn, callerNameIn } from './format/caller-name.js'
export type { AuditEnvelope, RawPayloadRecord, SignedEnvelope } from './format/envelope.js'
export { AuditBackpressureError, AuditError, type AuditErrorCode, SignerKeyError } from './format/errors.js'
export type { LegalHold } from './format/paths.js'
export { publicKeyLine, type SignatureVerifier } from './format/verifier.js'
export { generateKeyFile, newSigningKey, readKeyText } from './keys/key-file.js'
export { LocalDevSigner } from './keys/local-dev-signer.js'
export { type OpenedSigner, openSigner } from './keys/open-signer.js'
export { verifierFromPublicKey } from './keys/public-key.js'
export { UploadError } from './upload/error.js'
export type { PresignConfig } from './upload/presign.js'
export type { UploadStatus } from './upload/upload-status.js'
export { SvcAppender } from './writer/appender.js'
export type { AppenderConfig, AppenderLimits, AppenderOptions } from './writer/config.js'
export type { Revocation } from './writer/log-keys.js'

type LogFork = typeof import('./writer/fork.js')
type LogKeys = typeof import('./writer/log-keys.js')

// A key changes once in years, and a log is seldom copied: what does it is loaded then.
export const forkLog = async (...given: Parameters<LogFork['forkLog']>) =>
  (await import('./writer/fork.js')).forkLog(...given)

export const resumeLog = async (...given: Parameters<LogFork['resumeLog']>) =>
  (await import('./writer/fork.js')).resumeLog(...given)

export const rotateKey: LogKeys['rotateKey'] = async (...given) =>
  (await import('./writer/log-keys.js')).rotateKey(...given)

export const revokeKey: LogKeys['revokeKey'] = async (...given) =>
  (await import('./writer/log-keys.js')).revokeKey(...given)
