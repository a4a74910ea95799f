// What signs audit records. The contract's interface (contract.md §2.4) plus an optional
// asynchronous form for signers whose key lives elsewhere (a KMS, a worker thread).

export interface Signer {
  /** `ed25519:` and the SHA-256, in lower-case hex, of the 32-byte public key. */
  readonly keyId: string
  /** The 32-byte public key, where the signer can tell it; the log then names the keys it was signed with. */
  readonly publicKey?: Uint8Array
  /** The 64-byte Ed25519 signature of `data` (RFC 8032 §5.1.6). `data` is only valid during the call. */
  sign(data: Uint8Array): Uint8Array
  verify(data: Uint8Array, sig: Uint8Array): boolean
  /** Used in place of `sign` where present. */
  signAsync?(data: Uint8Array): Promise<Uint8Array>
  /**
   * The 32-byte seed, in memory of its own that the caller wipes, for a thread of this process that signs beside
   * the event loop. Only a signer whose key may be copied within the process has this. Its `sign` then gets
   * messages that lie in shared memory.
   */
  keyForThread?(): Uint8Array
}
