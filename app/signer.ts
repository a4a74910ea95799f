// `svc-sdk/signer`: what signs records, and the forms that signing rests on.

export type { Signer } from '@svc/core'
export { canonicalize, fromBase64, sha256Hex, toBase64 } from '@svc/core/json'
export { LocalDevSigner } from '@svc/plugin-audit/signer'
