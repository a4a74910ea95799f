// Replaces the signer of the audit log by one whose key stays in a PKCS#11 token: a plugin with the section `pkcs11`, which binds
// the token `Signer`, and `openSigner` for `svc keys --plugin`.
import { checkUsable, definePlugin, hostOf, owned, type Signer, tokens } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { z } from 'zod'
import { Pkcs11Signer } from './signer.js'
import { parsePkcs11Uri } from './uri.js'

/** By its key: policies that are loaded one after the other use one session with the token, which ends with the process. */
const opened = new Map<string, Pkcs11Signer>()

/**
 * The signer of a `pkcs11:` URI, whose paths are relative to `baseDir`.
 *
 * @throws {SignerKeyError} without the token or the key, or with a wrong PIN.
 */
export function openSigner(uri: string, baseDir: string): Pkcs11Signer {
  const key = parsePkcs11Uri(uri, baseDir)
  const name = JSON.stringify(key)
  const signer = opened.get(name) ?? new Pkcs11Signer(key)
  opened.set(name, signer)
  return signer
}

/** Opens the token with its first use: a policy is also loaded to check it. */
class TokenSigner implements Signer {
  readonly #uri: string
  readonly #baseDir: string

  constructor(uri: string, baseDir: string) {
    this.#uri = uri
    this.#baseDir = baseDir
  }

  get keyId(): string {
    return this.#signer.keyId
  }

  get publicKey(): Uint8Array {
    return this.#signer.publicKey
  }

  sign(data: Uint8Array): Uint8Array {
    return this.#signer.sign(data)
  }

  signAsync(data: Uint8Array): Promise<Uint8Array> {
    return this.#signer.signAsync(data)
  }

  verify(data: Uint8Array, signature: Uint8Array): boolean {
    return this.#signer.verify(data, signature)
  }

  get #signer(): Pkcs11Signer {
    return openSigner(this.#uri, this.#baseDir)
  }
}

const schema = z
  .strictObject({
    key: z
      .string()
      .superRefine((uri, context) => {
        const mistake = mistakeIn(uri)
        if (mistake !== undefined) context.addIssue({ code: 'custom', message: mistake })
      })
      .describe(
        'The key pair: `pkcs11:token=LABEL;object=LABEL?module-path=PATH&pin-source=env:NAME` (RFC 7512).',
      ),
  })
  .describe('The signing key of the audit log, in a PKCS#11 token.')

function mistakeIn(uri: string): string | undefined {
  try {
    parsePkcs11Uri(uri, '/')
    return undefined
  } catch (error) {
    return messageOf(error)
  }
}

export default definePlugin({
  name: 'pkcs11',
  version: '1.0.0',
  core: '^1.0.0',
  schema,
  owns: [
    owned(
      tokens.Signer,
      ({ key }: z.output<typeof schema>, bindings) =>
        new TokenSigner(key, hostOf(bindings).place?.baseDir ?? process.cwd()),
    ),
  ],
  create: ({ key }, { baseDir }) => ({
    handle: (_call, next) => next(),
    doctor: async () => [
      await checkUsable(
        'the signing key in the token',
        'check the token, its library and the PIN',
        async () => {
          openSigner(key, baseDir).sign(Buffer.from('svc doctor'))
        },
      ),
    ],
  }),
})
