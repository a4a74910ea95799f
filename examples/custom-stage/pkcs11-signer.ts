// A signer whose key stays in a PKCS#11 token: a smart card, an HSM, or SoftHSM. It has the public key, so the log
// keeps its checkpoints. The package `pkcs11js` is passed in; any other binding with these calls works too.
import { createHash, createPublicKey, type KeyObject, verify } from 'node:crypto'
import type { Signer } from 'svc-sdk/core'

type Handle = Buffer

interface Attribute {
  readonly type: number
  readonly value?: number | boolean | string | Buffer
}

/** The calls of `new PKCS11()` that are used. */
export interface Pkcs11 {
  load(path: string): void
  C_Initialize(options: { readonly flags: number }): void
  C_Finalize(): void
  C_GetSlotList(tokenPresent: boolean): Handle[]
  C_GetTokenInfo(slot: Handle): { readonly label: string }
  C_OpenSession(slot: Handle, flags: number): Handle
  C_Login(session: Handle, userType: number, pin: string): void
  C_FindObjectsInit(session: Handle, template: Attribute[]): void
  C_FindObjects(session: Handle, maximum: number): Handle[]
  C_FindObjectsFinal(session: Handle): void
  C_GetAttributeValue(session: Handle, object: Handle, template: Attribute[]): { readonly value: unknown }[]
  C_SignInit(session: Handle, mechanism: { readonly mechanism: number }, key: Handle): void
  C_Sign(session: Handle, data: Buffer, signature: Buffer): Buffer
  C_SignAsync(session: Handle, data: Buffer, signature: Buffer): Promise<Buffer>
}

export interface TokenKey {
  /** The vendor's library, such as `/usr/lib/softhsm/libsofthsm2.so`. */
  readonly module: string
  /** Label of the token. */
  readonly token: string
  /** Label of the Ed25519 key pair. */
  readonly key: string
  readonly pin: string
  /** Signatures made at once; default 4. */
  readonly sessions?: number
}

// Values of PKCS#11 3.0.
const CKF_OS_LOCKING_OK = 2
const CKF_SERIAL_SESSION = 4
const CKU_USER = 1
const CKA_CLASS = 0
const CKA_LABEL = 3
const CKA_EC_POINT = 0x181
const CKO_PUBLIC_KEY = 2
const CKO_PRIVATE_KEY = 3
const CKM_EDDSA = 0x1057

const SIGNATURE_BYTES = 64
const PUBLIC_KEY_BYTES = 32
/** The bytes before the key in a SubjectPublicKeyInfo (RFC 8410). */
const SPKI_PREFIX = Buffer.from('302a300506032b6570032100', 'hex')

/** `close()` it after the log. */
export class Pkcs11Signer implements Signer {
  readonly keyId: string
  readonly publicKey: Uint8Array
  readonly #pkcs11: Pkcs11
  readonly #privateKey: Handle
  readonly #verifying: KeyObject
  /** The session of `sign`. A session signs one message at a time. */
  readonly #own: Handle
  readonly #idle: Handle[]
  readonly #waiting: ((session: Handle) => void)[] = []

  /** @throws {Error} without this token, this key pair, or with a wrong PIN. */
  constructor(pkcs11: Pkcs11, { module, token, key, pin, sessions = 4 }: TokenKey) {
    pkcs11.load(module)
    // Without this flag only one thread may call the library, and `C_SignAsync` uses several.
    pkcs11.C_Initialize({ flags: CKF_OS_LOCKING_OK })
    try {
      const slot = pkcs11
        .C_GetSlotList(true)
        .find((one) => pkcs11.C_GetTokenInfo(one).label.trimEnd() === token)
      if (slot === undefined) throw new Error(`there is no token with the label ${token}`)
      const open = () => pkcs11.C_OpenSession(slot, CKF_SERIAL_SESSION)
      this.#own = open()
      // The login holds for all sessions of the process.
      pkcs11.C_Login(this.#own, CKU_USER, pin)
      this.#idle = Array.from({ length: sessions }, open)
      this.#privateKey = find(pkcs11, this.#own, CKO_PRIVATE_KEY, key)
      const publicKey = find(pkcs11, this.#own, CKO_PUBLIC_KEY, key)
      this.publicKey = publicKeyOf(pkcs11, this.#own, publicKey)
    } catch (error) {
      pkcs11.C_Finalize()
      throw error
    }
    this.#pkcs11 = pkcs11
    this.keyId = `ed25519:${createHash('sha256').update(this.publicKey).digest('hex')}`
    const spki = Buffer.concat([SPKI_PREFIX, this.publicKey])
    this.#verifying = createPublicKey({ key: spki, format: 'der', type: 'spki' })
  }

  /** Blocks while the token signs. The log uses `signAsync`. */
  sign(data: Uint8Array): Uint8Array {
    this.#pkcs11.C_SignInit(this.#own, { mechanism: CKM_EDDSA }, this.#privateKey)
    return this.#pkcs11.C_Sign(this.#own, Buffer.from(data), Buffer.alloc(SIGNATURE_BYTES))
  }

  async signAsync(data: Uint8Array): Promise<Uint8Array> {
    // It is valid during the call only, and may wait here.
    const message = Buffer.from(data)
    const session = this.#idle.pop() ?? (await new Promise<Handle>((free) => this.#waiting.push(free)))
    try {
      this.#pkcs11.C_SignInit(session, { mechanism: CKM_EDDSA }, this.#privateKey)
      return await this.#pkcs11.C_SignAsync(session, message, Buffer.alloc(SIGNATURE_BYTES))
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#idle.push(session)
      else next(session)
    }
  }

  verify(data: Uint8Array, signature: Uint8Array): boolean {
    return verify(null, data, this.#verifying, signature)
  }

  /** Ends the sessions of the process. */
  close(): void {
    this.#pkcs11.C_Finalize()
  }
}

function find(pkcs11: Pkcs11, session: Handle, kind: number, label: string): Handle {
  pkcs11.C_FindObjectsInit(session, [
    { type: CKA_CLASS, value: kind },
    { type: CKA_LABEL, value: label },
  ])
  const found = pkcs11.C_FindObjects(session, 2)
  pkcs11.C_FindObjectsFinal(session)
  const [object] = found
  if (object !== undefined && found.length === 1) return object
  throw new Error(`the token has ${found.length === 0 ? 'no' : 'more than one'} key with the label ${label}`)
}

/** An octet string of DER that holds the point. */
function publicKeyOf(pkcs11: Pkcs11, session: Handle, object: Handle): Uint8Array {
  const [point] = pkcs11.C_GetAttributeValue(session, object, [{ type: CKA_EC_POINT }])
  const { value } = point ?? {}
  if (value instanceof Uint8Array && value.length >= PUBLIC_KEY_BYTES) {
    return new Uint8Array(value.subarray(-PUBLIC_KEY_BYTES))
  }
  throw new Error('the public key of the token is not an Ed25519 key')
}
