// `svc-sdk/signer`: what signs records, and the forms that signing rests on (contract.md §2.4).
export { canonicalize, fromBase64, type Signer, sha256Hex, toBase64 } from '@svc/core'
export { LocalDevSigner } from '@svc/plugin-audit'
