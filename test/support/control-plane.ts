// `svc-control-plane` as a process, over a bucket of the test's.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Bucket } from './bucket.js'
import { endWithRunner } from './child-lifetime.js'

const packageFile = createRequire(import.meta.url).resolve('@svc/control-plane/package.json')
const program = join(dirname(packageFile), 'bin/svc-control-plane.js')

export interface TestControlPlane extends AsyncDisposable {
  readonly url: string
  /** Lines of its log, parsed. */
  readonly log: Record<string, unknown>[]
  /** Resolves with its next line. */
  logged(): Promise<unknown>
}

export interface Owner {
  readonly tenant: string
  readonly environment: string
  readonly clientName: string
  readonly clientVersion: string
}

export const owner: Owner = {
  tenant: 'acme',
  environment: 'prod',
  clientName: 'edge',
  clientVersion: '1.0.0',
}

/** The key that `svc-control-plane add-key` prints. */
export function addKey(
  keys: string,
  { tenant, environment, clientName, clientVersion }: Owner = owner,
  ...flags: readonly string[]
): string {
  const options = ['--tenant', tenant, '--environment', environment, '--client-name', clientName]
  const all = ['add-key', '--keys', keys, ...options, '--client-version', clientVersion, ...flags]
  return execFileSync(process.execPath, [program, ...all], { encoding: 'utf8' }).trim()
}

export async function startControlPlane(
  bucket: Pick<Bucket, 'name' | 'env'>,
  keys: string,
  ...options: string[]
): Promise<TestControlPlane> {
  const flags = ['--bucket', bucket.name, '--keys', keys, '--port', '0', ...options]
  const child = endWithRunner(
    spawn(process.execPath, [program, ...flags], {
      env: { ...process.env, ...bucket.env, AWS_EC2_METADATA_DISABLED: 'true' },
      stdio: ['ignore', 'pipe', 'pipe'],
    }),
  )
  let complaints = ''
  child.stderr.on('data', (piece: Buffer) => {
    complaints += String(piece)
  })
  const exited = once(child, 'exit')
  const log: Record<string, unknown>[] = []
  const lines = createInterface({ input: child.stdout })
  const url = await new Promise<string>((resolve, reject) => {
    lines.on('line', (line) => {
      const entry = JSON.parse(line) as Record<string, unknown>
      log.push(entry)
      if (entry['msg'] === 'listening') resolve(String(entry['url']))
    })
    child.once('exit', (code) => reject(new Error(`the control plane ended with ${code}: ${complaints}`)))
  })
  return {
    url,
    log,
    logged: () => once(lines, 'line'),
    async [Symbol.asyncDispose]() {
      child.kill('SIGTERM')
      await exited
    },
  }
}
