// Keeps the gateway's key and certificates up to date with their files. A change that is wrong leaves what was in
// force and is told until it is mended.
import type { SecureContextOptions, TlsOptions } from 'node:tls'
import type { Clock, Logger } from '@svc/core'
import { messageOf } from '@svc/core/json'
import type { KeyReader } from '@svc/core/secret'
import type { TlsConfig } from './config.js'
import { type Material, materialOf, type PemTexts } from './material.js'

/** A bundle of roots is larger than a key. */
const maxBytes = 1_048_576
const dayMs = 86_400_000
/** So long before its end a certificate is warned of. */
const soonMs = 7 * dayMs

export interface CertificateParts {
  readonly reader: Pick<KeyReader, 'read'>
  readonly clock: Pick<Clock, 'now'>
  readonly logger: Logger
}

export class Certificates {
  #config: TlsConfig
  #parts: CertificateParts
  #texts: PemTexts
  #material: Material
  #trouble: string | undefined
  #take: ((context: SecureContextOptions) => void) | undefined
  #timer: NodeJS.Timeout | undefined
  #refreshing: Promise<void> = Promise.resolve()

  private constructor(config: TlsConfig, parts: CertificateParts, texts: PemTexts) {
    this.#config = config
    this.#parts = parts
    this.#texts = texts
    this.#material = materialOf(texts, config.minVersion)
  }

  /** Rejects when a file cannot be read or its content is of no use. */
  static async open(config: TlsConfig, parts: CertificateParts): Promise<Certificates> {
    return new Certificates(config, parts, await readTexts(config, parts.reader))
  }

  /** For the server, when it is made. */
  get serverOptions(): TlsOptions {
    const mustShow = this.#config.clientCa !== undefined
    return { ...this.#material.context, requestCert: mustShow, rejectUnauthorized: mustShow }
  }

  /** Hands each new key and certificate to `take`, until `close`. */
  watch(take: (context: SecureContextOptions) => void): void {
    this.#take = take
    this.#timer = setInterval(() => void this.refresh(), this.#config.checkIntervalMs).unref()
  }

  close(): void {
    clearInterval(this.#timer)
    this.#take = undefined
  }

  /** Looks at the files now. Never rejects: what is wrong is logged, once, and told by `warnings`. */
  refresh(): Promise<void> {
    this.#refreshing = this.#refreshing.then(() => this.#refresh())
    return this.#refreshing
  }

  async #refresh(): Promise<void> {
    try {
      const texts = await readTexts(this.#config, this.#parts.reader)
      if (!isSame(texts, this.#texts)) this.#takeUp(texts)
      this.#trouble = undefined
    } catch (fault) {
      const reason = messageOf(fault)
      if (reason === this.#trouble) return
      this.#trouble = reason
      this.#parts.logger.error({ reason }, 'certificate not taken up; the old one stays in force')
    }
  }

  #takeUp(texts: PemTexts): void {
    const material = materialOf(texts, this.#config.minVersion)
    this.#take?.(material.context)
    this.#texts = texts
    this.#material = material
    const expires = new Date(material.expiresAt).toISOString()
    this.#parts.logger.info({ expires }, 'certificate taken up')
  }

  /** What needs an operator. */
  warnings(): string[] {
    const warnings: string[] = []
    if (this.#trouble !== undefined) warnings.push(`${this.#trouble}; the old one stays in force`)
    const { expiresAt } = this.#material
    const left = expiresAt - this.#parts.clock.now()
    if (left < soonMs) {
      const verb = left < 0 ? 'has expired' : 'expires'
      warnings.push(`tls.cert: the certificate ${verb} at ${new Date(expiresAt).toISOString()}`)
    }
    return warnings
  }
}

async function readTexts(
  { key, cert, clientCa }: TlsConfig,
  reader: CertificateParts['reader'],
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
