// Where gateways upload their logs: a bucket, and the control plane, which has its credentials and presigns each upload.
import { execFile } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { freePorts } from './free-ports.js'
import type { Program, ProgramOptions } from './program.js'

const run = promisify(execFile)
const require = createRequire(import.meta.url)
const controlPlane = join(
  dirname(require.resolve('@svc/control-plane/package.json')),
  'bin/svc-control-plane.js',
)
const bucketProgram = join(import.meta.dirname, 'bucket.js')

const bucket = 'audit-logs'
const storeKey = 'example' // the bucket of the example checks no credentials

export interface UploadStoreOptions {
  /** For the objects and the API keys. */
  readonly dir: string
  readonly tenant: string
  /** Names of the gateways, each of version 1.0.0. */
  readonly gateways: readonly string[]
  readonly program: (options: Omit<ProgramOptions, 'output' | 'onSpawn'>) => Program
}

export interface UploadStore {
  readonly url: string
  /** The file of the control plane's API keys. */
  readonly keysFile: string
  /** The API key of each gateway. */
  readonly keys: ReadonlyMap<string, string>
}

export async function startUploadStore(options: UploadStoreOptions): Promise<UploadStore> {
  const { dir, tenant, gateways, program } = options
  const [s3Port, port] = await freePorts(2)
  const cwd = join(dir, 'bucket')
  mkdirSync(join(cwd, bucket), { recursive: true })
  const bucketArgs = [bucketProgram, cwd, `${s3Port}`]
  await program({
    name: 's3',
    command: process.execPath,
    args: bucketArgs,
    cwd,
    ready: /listening/,
  }).start()
  const keysFile = join(dir, 'api-keys.json')
  const keys = new Map<string, string>()
  for (const name of gateways) keys.set(name, await addKey(keysFile, tenant, name))
  await program({
    name: 'control-plane',
    command: process.execPath,
    args: [controlPlane, '--bucket', bucket, '--keys', keysFile, '--port', `${port}`],
    cwd: dir,
    env: {
      AWS_ENDPOINT_URL_S3: `http://127.0.0.1:${s3Port}`,
      AWS_REGION: 'eu-central-1',
      AWS_ACCESS_KEY_ID: storeKey,
      AWS_SECRET_ACCESS_KEY: storeKey,
      AWS_EC2_METADATA_DISABLED: 'true',
    },
    ready: /"listening"/,
  }).start()
  return { url: `http://127.0.0.1:${port}`, keysFile, keys }
}

/** Makes an API key with which a gateway uploads its log. */
async function addKey(keysFile: string, tenant: string, gateway: string): Promise<string> {
  const owner = ['--tenant', tenant, '--environment', 'prod']
  const client = ['--client-name', gateway, '--client-version', '1.0.0']
  const args = [controlPlane, 'add-key', '--keys', keysFile, ...owner, ...client]
  return (await run(process.execPath, args)).stdout.trim()
}
