// Presigned URLs for any S3-compatible store (AWS Signature Version 4). What is signed is all of the PUT that
// matters: the key, the type, the length, and that nothing may stand there yet.
import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3'
import { getSignedUrl } from '@aws-sdk/s3-request-presigner'

export interface StoreOptions {
  readonly bucket: string
  /** Before every key, for example `audit/`; empty by default. */
  readonly prefix?: string
  /** Seconds that a URL is good for. */
  readonly expiresSec: number
  /** Of a store that is not AWS; else from the environment (`AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`). */
  readonly endpoint?: string
  /** Else from the environment (`AWS_REGION`) or the profile. */
  readonly region?: string
}

export interface ObjectToPut {
  readonly key: string
  readonly contentType: string
  /** Bytes. */
  readonly contentLength: number
}

/** What a client needs to put one object: the control plane's answer. */
export interface Presigned {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}

export class Store {
  readonly #options: StoreOptions
  readonly #client: S3Client

  /** Credentials come from the environment, as the SDK finds them. */
  constructor(options: StoreOptions, env: Readonly<Record<string, string | undefined>>) {
    const { endpoint = env['AWS_ENDPOINT_URL_S3'] ?? env['AWS_ENDPOINT_URL'], region } = options
    this.#options = options
    this.#client = new S3Client({
      // Buckets as host names need DNS that a store of one's own seldom has, and most of those want no region.
      ...(endpoint === undefined ? {} : { endpoint, forcePathStyle: true }),
      ...regionOf(region ?? env['AWS_REGION'], endpoint),
      // A checksum computed here would be of no body at all.
      requestChecksumCalculation: 'WHEN_REQUIRED',
    })
  }

  async presign({ key, contentType, contentLength }: ObjectToPut): Promise<Presigned> {
    const { bucket, prefix = '', expiresSec } = this.#options
    const command = new PutObjectCommand({
      Bucket: bucket,
      Key: prefix + key,
      ContentType: contentType,
      ContentLength: contentLength,
      // RFC 9110 §13.1.2: only where nothing stands. Nothing that was uploaded can be overwritten.
      IfNoneMatch: '*',
    })
    const url = await getSignedUrl(this.#client, command, {
      expiresIn: expiresSec,
      signableHeaders: new Set(['host', 'content-type', 'content-length', 'if-none-match']),
      unhoistableHeaders: new Set(['if-none-match']),
    })
    return { url, headers: { 'Content-Type': contentType, 'If-None-Match': '*' } }
  }

  close(): void {
    this.#client.destroy()
  }
}

function regionOf(region: string | undefined, endpoint: string | undefined): { region?: string } {
  if (region !== undefined) return { region }
  return endpoint === undefined ? {} : { region: 'us-east-1' }
}
