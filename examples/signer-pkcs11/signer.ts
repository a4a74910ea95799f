// A signer whose key stays in a PKCS#11 token: an HSM, a smart card, a KMS with such a library, or SoftHSM. After a failure,
// such as a token that was away, it opens its sessions anew.

import type { Signer } from '@svc/core'
import { messageOf, sha256Hex } from '@svc/core/json'
import {
  readKeyText,
  type SignatureVerifier,
  SignerKeyError,
  verifierFromPublicKey,
} from '@svc/plugin-audit/log'
import { codeOf, type Handle, type Pkcs11, Pkcs11Module } from './module.js'
import type { TokenKey } from './uri.js'

// Values of PKCS#11 3.0.
const CKF_SERIAL_SESSION = 4
const CKU_USER = 1
const CKA_CLASS = 0x0
const CKA_LABEL = 0x3
const CKA_SENSITIVE = 0x103
const CKA_EXTRACTABLE = 0x162
const CKA_EC_POINT = 0x181
const CKO_PUBLIC_KEY = 2
const CKO_PRIVATE_KEY = 3
const CKM_EDDSA = 0x1057
const CKR_USER_ALREADY_LOGGED_IN = 0x100
/** The PIN is incorrect, invalid, has a wrong length, is expired or locked. */
const CKR_PIN = [0xa0, 0xa1, 0xa2, 0xa3, 0xa4]

const SIGNATURE_BYTES = 64
const PUBLIC_KEY_BYTES = 32
/** Each signature in progress has a thread of the process's pool, of which the disk needs some. */
const SESSIONS = 2
/** A token that hangs must not fill the memory. */
const MAX_WAITING = 10_000
/** How often a token that is away is looked for. */
const REST_MS = 1_000

interface OpenToken {
  readonly generation: number
  readonly privateKey: Handle
  readonly publicKey: Uint8Array
  /** The session of `sign`. A session signs one message at a time. */
  readonly own: Handle
  readonly idle: Handle[]
}

/** `close()` it after the log. */
export class Pkcs11Signer implements Signer {
  readonly keyId: string
  readonly publicKey: Uint8Array
  readonly #key: TokenKey
  readonly #module: Pkcs11Module
  readonly #verifier: SignatureVerifier
  readonly #waiting: (() => void)[] = []
  /** Signatures in progress. */
  #running = 0
  #open: OpenToken | undefined
  /** SHA-256 of a PIN that the token refused: after a few attempts with it the token would lock the key. */
  #refusedPin: string | undefined
  /** The last failure, and its time. */
  #failure: { readonly error: unknown; readonly at: number } | undefined
  #isClosed = false

  /** @throws {SignerKeyError} `token_failed` without this token or key pair, with a wrong PIN, or for a key that may leave it. */
  constructor(key: TokenKey, newBinding?: () => Pkcs11) {
    this.#key = key
    this.#module = Pkcs11Module.acquire(key.module, newBinding)
    try {
      this.#open = this.#openToken()
    } catch (error) {
      this.#module.release()
      throw error
    }
    this.publicKey = this.#open.publicKey
    this.#verifier = verifierFromPublicKey(this.publicKey)
    this.keyId = this.#verifier.keyId
  }

  /** Blocks while the token signs. The log uses `signAsync`. */
  sign(data: Uint8Array): Uint8Array {
    const { own, privateKey } = this.#current()
    this.#module.calls.C_SignInit(own, { mechanism: CKM_EDDSA }, privateKey)
    return this.#module.calls.C_Sign(own, Buffer.from(data), Buffer.alloc(SIGNATURE_BYTES))
  }

  async signAsync(data: Uint8Array): Promise<Uint8Array> {
    if (this.#failure !== undefined && performance.now() - this.#failure.at < REST_MS)
      throw this.#failure.error
    // It is valid during the call only, and may wait here.
    const message = Buffer.from(data)
    const { generation } = this.#module
    try {
      const signature = await this.#attempt(message).catch(async (error: unknown) => {
        if (this.#isClosed) throw error
        await this.#module.restart(generation)
        return this.#attempt(message)
      })
      this.#failure = undefined
      return signature
    } catch (error) {
      this.#failure = { error, at: performance.now() }
      throw error
    }
  }

  verify(data: Uint8Array, signature: Uint8Array): boolean {
    return this.#verifier.verify(data, signature)
  }

  /** Ends its sessions. Safe to call twice. */
  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    const open = this.#open
    this.#open = undefined
    if (open?.generation === this.#module.generation) this.#module.closeSessions([open.own, ...open.idle])
    this.#module.release()
  }

  toJSON(): { keyId: string } {
    return { keyId: this.keyId }
  }

  async #attempt(message: Buffer): Promise<Uint8Array> {
    if (this.#running >= SESSIONS) {
      if (this.#waiting.length >= MAX_WAITING) throw this.#error('has too many signatures waiting')
      await new Promise<void>((enter) => this.#waiting.push(enter))
    }
    this.#running++
    try {
      await this.#module.settled()
      const { idle, privateKey } = this.#current()
      const session = idle.pop()
      if (session === undefined) throw this.#error('has no session')
      try {
        return await this.#module.run((pkcs11) => {
          pkcs11.C_SignInit(session, { mechanism: CKM_EDDSA }, privateKey)
          return pkcs11.C_SignAsync(session, message, Buffer.alloc(SIGNATURE_BYTES))
        })
      } finally {
        idle.push(session)
      }
    } finally {
      this.#running--
      this.#waiting.shift()?.()
    }
  }

  /** The sessions, opened anew if the library was initialised since. */
  #current(): OpenToken {
    if (this.#isClosed) throw this.#error('is closed')
    if (this.#open?.generation !== this.#module.generation) this.#open = this.#openToken()
    return this.#open
  }

  #openToken(): OpenToken {
    const { token, object } = this.#key
    const { calls, generation } = this.#module
    try {
      const slot = calls
        .C_GetSlotList(true)
        .find((one) => calls.C_GetTokenInfo(one).label.trimEnd() === token)
      if (slot === undefined) throw this.#error('is not there')
      const openSession = () => calls.C_OpenSession(slot, CKF_SERIAL_SESSION)
      const own = openSession()
      this.#logIn(own)
      const privateKey = this.#find(own, CKO_PRIVATE_KEY)
      const attributes = [{ type: CKA_SENSITIVE }, { type: CKA_EXTRACTABLE }]
      const [sensitive, extractable] = calls.C_GetAttributeValue(own, privateKey, attributes)
      if (!isSet(sensitive?.value) || isSet(extractable?.value)) {
        throw this.#error(
          `has the key ${object}, but the key may leave it: make one that is sensitive and not extractable`,
        )
      }
      const publicKey = this.#publicKey(own)
      if (this.publicKey !== undefined && Buffer.compare(publicKey, this.publicKey) !== 0) {
        throw this.#error(`has another key with the label ${object} than at the start`)
      }
      return { generation, privateKey, publicKey, own, idle: Array.from({ length: SESSIONS }, openSession) }
    } catch (error) {
      throw error instanceof SignerKeyError
        ? error
        : this.#error(`cannot be used: ${messageOf(error)}`, error)
    }
  }

  /** The login holds for all sessions of the process with the token. */
  #logIn(session: Handle): void {
    const pin = this.#pin()
    const digest = sha256Hex(pin)
    if (digest === this.#refusedPin) throw this.#error('has refused this PIN, which is not tried again')
    try {
      this.#module.calls.C_Login(session, CKU_USER, pin)
    } catch (error) {
      const code = codeOf(error)
      if (code === CKR_USER_ALREADY_LOGGED_IN) return
      if (CKR_PIN.some((one) => one === code)) this.#refusedPin = digest
      throw error
    }
  }

  #pin(): string {
    const { pin } = this.#key
    if (pin.kind === 'file')
      return readKeyText(pin.path, (warning) => process.emitWarning(warning, 'SvcSignerWarning'))
    const text = process.env[pin.name]
    if (text === undefined || text === '')
      throw this.#error(`needs a PIN, and the variable ${pin.name} is not set`)
    return text
  }

  #find(session: Handle, kind: number): Handle {
    const { calls } = this.#module
    const { object: label } = this.#key
    calls.C_FindObjectsInit(session, [
      { type: CKA_CLASS, value: kind },
      { type: CKA_LABEL, value: label },
    ])
    const found = calls.C_FindObjects(session, 2)
    calls.C_FindObjectsFinal(session)
    const [object] = found
    if (object !== undefined && found.length === 1) return object
    throw this.#error(`has ${found.length === 0 ? 'no' : 'more than one'} key with the label ${label}`)
  }

  /** An octet string of DER that holds the point. */
  #publicKey(session: Handle): Uint8Array {
    const object = this.#find(session, CKO_PUBLIC_KEY)
    const [point] = this.#module.calls.C_GetAttributeValue(session, object, [{ type: CKA_EC_POINT }])
    const { value } = point ?? {}
    const isOctetString = value instanceof Uint8Array && value.length === PUBLIC_KEY_BYTES + 2
    if (value instanceof Uint8Array && (isOctetString || value.length === PUBLIC_KEY_BYTES)) {
      return new Uint8Array(value.subarray(-PUBLIC_KEY_BYTES))
    }
    throw this.#error(`has a key ${this.#key.object} that is not an Ed25519 key`)
  }

  #error(what: string, cause?: unknown): SignerKeyError {
    return new SignerKeyError('token_failed', `the PKCS#11 token ${this.#key.token} ${what}`, cause)
  }
}

/** A boolean attribute, which the binding returns as its byte. */
function isSet(value: unknown): boolean {
  return value === true || (value instanceof Uint8Array && value[0] === 1)
}
