// The signer of audit records: the contract's interface, and an optional asynchronous form for signers
// with a remote key (a KMS, a worker thread).

export interface Signer {
  /** With a `publicKey`, `ed25519:` and the SHA-256 of it in lower-case hex; else any name of the key. */
  readonly keyId: string
  /** The 32-byte public key, if the signer has it; without it a log has no journal and cannot show that it is complete. */
  readonly publicKey?: Uint8Array
  /** The 64-byte Ed25519 signature of `data` (RFC 8032 §5.1.6). `data` is only valid during the call. */
  sign(data: Uint8Array): Uint8Array
  verify(data: Uint8Array, sig: Uint8Array): boolean
  /** Used instead of `sign` if present. */
  signAsync?(data: Uint8Array): Promise<Uint8Array>
  /**
   * A copy of the 32-byte seed, which the caller overwrites after use, for a signing thread of this process. Only for a
   * signer whose key may be copied within the process. Its `sign` then gets messages in shared memory.
   */
  keyForThread?(): Uint8Array
}
