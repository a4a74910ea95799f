// A token of SoftHSM with an Ed25519 key, for one test.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Pkcs11 } from '../../examples/signer-pkcs11/module.js'

export const PIN = '1234'
/** Where `npm test` compiles the binding; see scripts/test-needs.mjs. */
export const bindingFolder = fileURLToPath(new URL('../../pkcs11/node_modules', import.meta.url))
const library = ['/usr/lib/softhsm/libsofthsm2.so', '/usr/lib64/pkcs11/libsofthsm2.so'].find((path) =>
  existsSync(path),
)

/** Why there is no token on this machine; undefined if there is one. */
export const tokenMissing =
  library === undefined
    ? 'SoftHSM is not installed (Debian: softhsm2)'
    : existsSync(join(bindingFolder, 'pkcs11js/build/Release/pkcs11.node'))
      ? undefined
      : 'pkcs11js is not compiled in test/pkcs11, which needs a compiler and the headers of Node'

interface KeyMaker extends Pkcs11 {
  C_GenerateKeyPair(session: Buffer, mechanism: object, publicKey: object[], privateKey: object[]): object
}

export function newBinding(): KeyMaker {
  const { PKCS11 } = createRequire(bindingFolder)('./node_modules/pkcs11js') as { PKCS11: new () => KeyMaker }
  return new PKCS11()
}

export class SoftToken implements Disposable {
  readonly home = mkdtempSync(join(tmpdir(), 'svc-test-'))
  readonly library = library ?? ''
  readonly #before = process.env['SOFTHSM2_CONF']

  /** `audit` is the token's label, `audit-2026` that of its key. */
  constructor() {
    mkdirSync(this.#tokens)
    const config = join(this.home, 'softhsm2.conf')
    writeFileSync(config, `directories.tokendir = ${this.#tokens}\n`)
    process.env['SOFTHSM2_CONF'] = config
    const args = ['--init-token', '--free', '--label', 'audit', '--pin', PIN, '--so-pin', '5678']
    const { status, stderr } = spawnSync('softhsm2-util', args, { encoding: 'utf8' })
    if (status !== 0) throw new Error(stderr)
    this.makeKey('audit-2026')
  }

  get #tokens(): string {
    return join(this.home, 'tokens')
  }

  keyRef(object = 'audit-2026', pinSource = 'env:SVC_TEST_PIN'): string {
    return `pkcs11:token=audit;object=${object}?module-path=${this.library}&pin-source=${pinSource}`
  }

  /** The template of an Ed25519 key pair (PKCS#11 3.0). */
  makeKey(label: string, { extractable = false } = {}): void {
    const pkcs11 = newBinding()
    pkcs11.load(this.library)
    pkcs11.C_Initialize({ flags: 0 })
    const slot = pkcs11
      .C_GetSlotList(true)
      .find((one) => pkcs11.C_GetTokenInfo(one).label.trimEnd() === 'audit')
    if (slot === undefined) throw new Error('no token')
    const session = pkcs11.C_OpenSession(slot, 6)
    pkcs11.C_Login(session, 1, PIN)
    const common = [
      { type: 0x3, value: label },
      { type: 0x1, value: true },
    ]
    const curve = Buffer.from('06032b6570', 'hex')
    pkcs11.C_GenerateKeyPair(
      session,
      { mechanism: 0x1055 },
      [...common, { type: 0x180, value: curve }, { type: 0x10a, value: true }],
      [
        ...common,
        { type: 0x103, value: !extractable },
        { type: 0x162, value: extractable },
        { type: 0x108, value: true },
      ],
    )
    pkcs11.C_Finalize()
    pkcs11.close()
  }

  /** As if the token were unplugged, until `plugIn`. */
  unplug(): void {
    renameSync(this.#tokens, `${this.#tokens}-away`)
    mkdirSync(this.#tokens)
  }

  plugIn(): void {
    rmSync(this.#tokens, { recursive: true })
    renameSync(`${this.#tokens}-away`, this.#tokens)
  }

  [Symbol.dispose](): void {
    if (this.#before === undefined) delete process.env['SOFTHSM2_CONF']
    else process.env['SOFTHSM2_CONF'] = this.#before
    rmSync(this.home, { recursive: true, force: true })
  }
}
