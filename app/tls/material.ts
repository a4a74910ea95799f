// Parses key and certificates, and checks that they belong together.
import { constants, createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import { createSecureContext, type SecureContextOptions } from 'node:tls'
import { messageOf } from '@svc/core/json'

/** In PEM. */
export interface PemTexts {
  readonly key: string
  readonly cert: string
  readonly clientCa?: string
}

export interface Material {
  readonly context: SecureContextOptions
  /** When the certificate expires; milliseconds since the epoch. */
  readonly expiresAt: number
}

const block = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/** Throws when key or certificates are not valid, or do not belong together. The message quotes none of them. */
export function materialOf({ key, cert, clientCa }: PemTexts, minVersion: 'TLSv1.2' | 'TLSv1.3'): Material {
  const [own] = certificatesIn('cert', cert)
  if (!own.checkPrivateKey(privateKeyIn(key)))
    throw new Error('tls.cert: the certificate does not belong to tls.key')
  // OpenSSL ignores what it cannot parse here, and would trust no client.
  if (clientCa !== undefined) certificatesIn('clientCa', clientCa)
  const context: SecureContextOptions = {
    key,
    cert,
    ...(clientCa === undefined ? {} : { ca: clientCa }),
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

/** At least one. */
function certificatesIn(name: 'cert' | 'clientCa', pem: string): [X509Certificate, ...X509Certificate[]] {
  const [first, ...others] = pem.match(block) ?? []
  if (first === undefined) throw new Error(`tls.${name}: no certificate in PEM`)
  try {
    return [new X509Certificate(first), ...others.map((one) => new X509Certificate(one))]
  } catch (cause) {
    throw new Error(`tls.${name}: holds a certificate that cannot be read`, { cause })
  }
}
