// Bytes of Ed25519 (RFC 8032). Threads that only sign load nothing else of the format.

export const PUBLIC_KEY_BYTES = 32
export const SIGNATURE_BYTES = 64
