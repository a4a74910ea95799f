// Presigned URLs for any S3-compatible store (AWS Signature Version 4). The signature covers the PUT's key,
// type and length, and the condition that the object does not exist yet.
import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3'
import { getSignedUrl } from '@aws-sdk/s3-request-presigner'

export interface StoreOptions {
  readonly bucket: string
  /** Prefix of every key, for example `audit/`; empty by default. */
  readonly prefix?: string
  /** Lifetime of a URL, seconds. */
  readonly expiresSec: number
  /** For a store other than AWS. Default: `AWS_ENDPOINT_URL_S3`, then `AWS_ENDPOINT_URL` of the environment. */
  readonly endpoint?: string
  /** Default: `AWS_REGION` of the environment, then the profile. */
  readonly region?: string
}

export interface ObjectToPut {
  readonly key: string
  readonly contentType: string
  /** Bytes. */
  readonly contentLength: number
}

/** What a client needs to put one object: the answer of `/api/svc/upload-url`. */
export interface Presigned {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}

export class Store {
  readonly #options: StoreOptions
  readonly #client: S3Client

  /** The AWS SDK takes the credentials from the environment. */
  constructor(options: StoreOptions, env: Readonly<Record<string, string | undefined>>) {
    const { endpoint = env['AWS_ENDPOINT_URL_S3'] ?? env['AWS_ENDPOINT_URL'], region } = options
    this.#options = options
    this.#client = new S3Client({
      // A bucket as host name needs DNS entries that self-hosted stores seldom have; most of them ignore the region.
      ...(endpoint === undefined ? {} : { endpoint, forcePathStyle: true }),
      ...regionOf(region ?? env['AWS_REGION'], endpoint),
      // There is no body here to compute a checksum of.
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
      // RFC 9110 §13.1.2: only if there is no such object, so that no upload overwrites another.
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
