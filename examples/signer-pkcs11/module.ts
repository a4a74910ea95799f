// Libraries of PKCS#11 tokens, through the optional package `pkcs11js`. A library is initialised once for the process,
// and all signers that use it share it: one that is initialised again loses the sessions of the others, which open new ones.

import { createRequire } from 'node:module'
import { messageOf } from '@svc/core/json'
import { SignerKeyError } from '@svc/plugin-audit/log'

export type Handle = Buffer

interface Attribute {
  readonly type: number
  readonly value?: number | boolean | string | Buffer
}

/** The calls of `pkcs11js` that are used. */
export interface Pkcs11 {
  load(path: string): void
  close(): void
  C_Initialize(options: { readonly flags: number }): void
  C_Finalize(): void
  C_GetSlotList(tokenPresent: boolean): Handle[]
  C_GetTokenInfo(slot: Handle): { readonly label: string }
  C_OpenSession(slot: Handle, flags: number): Handle
  C_CloseSession(session: Handle): void
  C_Login(session: Handle, userType: number, pin: string): void
  C_FindObjectsInit(session: Handle, template: Attribute[]): void
  C_FindObjects(session: Handle, maximum: number): Handle[]
  C_FindObjectsFinal(session: Handle): void
  C_GetAttributeValue(session: Handle, object: Handle, template: Attribute[]): { readonly value: unknown }[]
  C_SignInit(session: Handle, mechanism: { readonly mechanism: number }, key: Handle): void
  C_Sign(session: Handle, data: Buffer, signature: Buffer): Buffer
  C_SignAsync(session: Handle, data: Buffer, signature: Buffer): Promise<Buffer>
}

// Without this flag only one thread may call the library, and `C_SignAsync` uses several (PKCS#11 3.0 §5.4).
const CKF_OS_LOCKING_OK = 2
const CKR_CRYPTOKI_ALREADY_INITIALIZED = 0x191

export class Pkcs11Module {
  static readonly #open = new Map<string, Pkcs11Module>()
  readonly #path: string
  readonly #pkcs11: Pkcs11
  #users = 0
  #running = 0
  #idle: (() => void)[] = []
  #restarting: Promise<void> | undefined
  /** Sessions of an earlier generation are gone. */
  generation = 0

  private constructor(path: string, newBinding: () => Pkcs11) {
    this.#path = path
    this.#pkcs11 = newBinding()
    try {
      this.#pkcs11.load(path)
      this.#initialize()
    } catch (cause) {
      throw new SignerKeyError(
        'token_failed',
        `the PKCS#11 library ${path} cannot be used: ${messageOf(cause)}`,
        cause,
      )
    }
  }

  /** The library at `path`; each call needs a `release`. @throws {SignerKeyError} `token_failed`. */
  static acquire(path: string, newBinding = installedBinding): Pkcs11Module {
    const module = Pkcs11Module.#open.get(path) ?? new Pkcs11Module(path, newBinding)
    Pkcs11Module.#open.set(path, module)
    module.#users++
    return module
  }

  release(): void {
    if (--this.#users > 0) return
    Pkcs11Module.#open.delete(this.#path)
    // A call that hangs would also hang this one.
    if (this.#running > 0) return
    this.#pkcs11.C_Finalize()
    this.#pkcs11.close()
  }

  /** The calls that end at once. */
  get calls(): Pkcs11 {
    return this.#pkcs11
  }

  /** Runs a call that takes time, and during which the library must stay initialised. */
  async run<T>(call: (pkcs11: Pkcs11) => Promise<T>): Promise<T> {
    this.#running++
    try {
      return await call(this.#pkcs11)
    } finally {
      if (--this.#running === 0) for (const resume of this.#idle.splice(0)) resume()
    }
  }

  /** Initialises the library again once no call runs, unless that was done since `generation`: it then sees new tokens. */
  async restart(generation: number): Promise<void> {
    if (generation !== this.generation) return
    this.#restarting ??= this.#restart().finally(() => {
      this.#restarting = undefined
    })
    await this.#restarting
  }

  closeSessions(sessions: readonly Handle[]): void {
    try {
      for (const session of sessions) this.#pkcs11.C_CloseSession(session)
    } catch (error) {
      // The token is away, and its sessions with it.
      if (codeOf(error) === undefined) throw error
    }
  }

  /** Resolves when the library is not being initialised. */
  async settled(): Promise<void> {
    await this.#restarting
  }

  async #restart(): Promise<void> {
    while (this.#running > 0) await new Promise<void>((resume) => this.#idle.push(resume))
    this.generation++
    this.#pkcs11.C_Finalize()
    this.#initialize()
  }

  #initialize(): void {
    try {
      this.#pkcs11.C_Initialize({ flags: CKF_OS_LOCKING_OK })
    } catch (error) {
      if (codeOf(error) !== CKR_CRYPTOKI_ALREADY_INITIALIZED) throw error
    }
  }
}

/** The `CKR_…` value of an error of the library. */
export function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}

function installedBinding(): Pkcs11 {
  try {
    const { PKCS11: Binding } = createRequire(import.meta.url)('pkcs11js') as { PKCS11: new () => Pkcs11 }
    return new Binding()
  } catch (cause) {
    throw new SignerKeyError(
      'token_failed',
      'a key in a PKCS#11 token needs the package pkcs11js: npm install pkcs11js',
      cause,
    )
  }
}
