// Reloads the gateway's key and certificates when their files change. After an invalid change the old ones stay in use,
// with a warning until the files are repaired.
import { constants, createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import { createSecureContext, type SecureContextOptions, type TlsOptions } from 'node:tls'
import type { Clock, Logger } from '@svc/core'
import { defined, messageOf } from '@svc/core/json'
import { keyRefSchema } from '@svc/core/policy'
import type { KeyReader } from '@svc/core/secret'
import { z } from 'zod'

const refSchema = (what: string) =>
  keyRefSchema.describe(`${what}, in PEM: file://PATH, env:NAME or command:NAME.`)

export const tlsSchema = z
  .strictObject({
    key: refSchema('The private key'),
    cert: refSchema('The certificate, followed by its chain'),
    clientCa: refSchema(
      'The roots of client certificates; with it only clients with such a certificate may connect',
    ).optional(),
    minVersion: z
      .enum(['TLSv1.2', 'TLSv1.3'])
      .default('TLSv1.2')
      .describe('The oldest TLS version that is accepted.'),
    dirs: z
      .array(z.string().min(1))
      .min(1)
      .optional()
      .describe("Directories that may contain these files; the policy's own and sec0Dir by default."),
    checkIntervalMs: z
      .int()
      .min(10)
      .max(86_400_000)
      .default(10_000)
      .describe('Interval of the check for changed files, in milliseconds.'),
  })
  .optional()
  .describe('TLS on the port of the gateway; plain HTTP if absent.')

export type TlsConfig = NonNullable<z.output<typeof tlsSchema>>

/** Limit for a file; a bundle of roots is larger than a key. */
const maxBytes = 1_048_576
const dayMs = 86_400_000
/** Time before a certificate's end at which the warnings begin. */
const warnBeforeMs = 7 * dayMs

interface CertificateOptions {
  readonly reader: Pick<KeyReader, 'read'>
  readonly clock: Pick<Clock, 'now'>
  readonly logger: Logger
}

export class Certificates {
  #config: TlsConfig
  #options: CertificateOptions
  #texts: PemTexts
  #material: Material
  #error: string | undefined
  #apply: ((context: SecureContextOptions) => void) | undefined
  #timer: NodeJS.Timeout | undefined
  #refreshing: Promise<void> = Promise.resolve()

  private constructor(config: TlsConfig, options: CertificateOptions, texts: PemTexts) {
    this.#config = config
    this.#options = options
    this.#texts = texts
    this.#material = materialOf(texts, config.minVersion)
  }

  /** Rejects if a file cannot be read or its content is not valid. */
  static async open(config: TlsConfig, options: CertificateOptions): Promise<Certificates> {
    return new Certificates(config, options, await readTexts(config, options.reader))
  }

  /** Options for the creation of the server. */
  get serverOptions(): TlsOptions {
    const requiresClient = this.#config.clientCa !== undefined
    return { ...this.#material.context, requestCert: requiresClient, rejectUnauthorized: requiresClient }
  }

  /** Milliseconds since the epoch. */
  get expiresAt(): number {
    return this.#material.expiresAt
  }

  /** Calls `apply` with each new key and certificate, until `close`. */
  watch(apply: (context: SecureContextOptions) => void): void {
    this.#apply = apply
    this.#timer = setInterval(() => void this.refresh(), this.#config.checkIntervalMs).unref()
  }

  close(): void {
    clearInterval(this.#timer)
    this.#apply = undefined
  }

  /** Reads the files now. Never rejects: an error is logged once, and is in `warnings`. */
  refresh(): Promise<void> {
    this.#refreshing = this.#refreshing.then(() => this.#refresh())
    return this.#refreshing
  }

  async #refresh(): Promise<void> {
    try {
      const texts = await readTexts(this.#config, this.#options.reader)
      if (!isSame(texts, this.#texts)) this.#update(texts)
      this.#error = undefined
    } catch (error) {
      const reason = messageOf(error)
      if (reason === this.#error) return
      this.#error = reason
      this.#options.logger.error({ reason }, 'certificate not updated; the old one stays in use')
    }
  }

  #update(texts: PemTexts): void {
    const material = materialOf(texts, this.#config.minVersion)
    this.#apply?.(material.context)
    this.#texts = texts
    this.#material = material
    const expires = new Date(material.expiresAt).toISOString()
    this.#options.logger.info({ expires }, 'certificate updated')
  }

  /** Conditions that an operator must repair. */
  warnings(): string[] {
    const warnings: string[] = []
    if (this.#error !== undefined) warnings.push(`${this.#error}; the old one stays in use`)
    const { expiresAt } = this.#material
    const remaining = expiresAt - this.#options.clock.now()
    if (remaining < warnBeforeMs) {
      const verb = remaining < 0 ? 'has expired' : 'expires'
      warnings.push(`tls.cert: the certificate ${verb} at ${new Date(expiresAt).toISOString()}`)
    }
    return warnings
  }
}

async function readTexts(
  { key, cert, clientCa }: TlsConfig,
  reader: CertificateOptions['reader'],
): Promise<PemTexts> {
  const read = async (name: keyof PemTexts, ref: string): Promise<string> => {
    try {
      return await reader.read(ref, maxBytes)
    } catch (cause) {
      throw new Error(`tls.${name}: ${messageOf(cause)}`, { cause })
    }
  }
  return {
    key: await read('key', key),
    cert: await read('cert', cert),
    ...(clientCa === undefined ? {} : { clientCa: await read('clientCa', clientCa) }),
  }
}

function isSame(a: PemTexts, b: PemTexts): boolean {
  return a.key === b.key && a.cert === b.cert && a.clientCa === b.clientCa
}

/** The texts in PEM. */
interface PemTexts {
  readonly key: string
  readonly cert: string
  readonly clientCa?: string
}

interface Material {
  readonly context: SecureContextOptions
  /** The end of the certificate's validity; milliseconds since the epoch. */
  readonly expiresAt: number
}

const block = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/** Throws if key or certificates are not valid, or do not belong together. The message quotes none of them. */
function materialOf({ key, cert, clientCa }: PemTexts, minVersion: 'TLSv1.2' | 'TLSv1.3'): Material {
  const [own] = certificatesIn('cert', cert)
  if (!own.checkPrivateKey(privateKeyIn(key)))
    throw new Error('tls.cert: the certificate does not belong to tls.key')
  // OpenSSL ignores what it cannot parse here, and would trust no client.
  if (clientCa !== undefined) certificatesIn('clientCa', clientCa)
  const context: SecureContextOptions = {
    key,
    cert,
    ...defined({ ca: clientCa }),
    minVersion,
    // Renegotiation costs the server more than the client, which could repeat it without end.
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
  }
  try {
    createSecureContext(context)
  } catch (cause) {
    throw new Error(`tls: OpenSSL refuses the key or the certificates (${messageOf(cause)})`, { cause })
  }
  return { context, expiresAt: Date.parse(own.validTo) }
}

function privateKeyIn(pem: string): KeyObject {
  try {
    return createPrivateKey(pem)
  } catch (cause) {
    throw new Error('tls.key: not a private key in PEM without a passphrase', { cause })
  }
}

/** The certificates, at least one. */
function certificatesIn(name: 'cert' | 'clientCa', pem: string): [X509Certificate, ...X509Certificate[]] {
  const [first, ...others] = pem.match(block) ?? []
  if (first === undefined) throw new Error(`tls.${name}: no certificate in PEM`)
  try {
    return [new X509Certificate(first), ...others.map((one) => new X509Certificate(one))]
  } catch (cause) {
    throw new Error(`tls.${name}: holds a certificate that cannot be read`, { cause })
  }
}
