// `svc-sdk/signer`: signers of records, canonical JSON and hashes.

export type { Signer } from '@svc/core'
export { canonicalize, fromBase64, sha256Hex, toBase64 } from '@svc/core/json'
export { LocalDevSigner } from '@svc/plugin-audit/signer'
