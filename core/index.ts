export type { Signer } from './signer.js'
