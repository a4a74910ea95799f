// The example gateway: this directory's policy, in front of a tool server that may be elsewhere than it says.
import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type GatewayHandle, startGatewayServer } from 'svc-sdk/gateway'
import { svc } from './svc.js'

export const examplePolicy = fileURLToPath(new URL('../policy.yaml', import.meta.url))

const usualTarget = 'http://127.0.0.1:8788/billing'
export const usualToolPort = Number(new URL(usualTarget).port)
export const usualAdminPort = 8789

/** The example's policy with the address the tool server really has, and a port for operators: the usual ones may be taken. */
export function policyFor(target: string, adminPort: number): string {
  const changes = [
    [usualTarget, target],
    [`port: ${usualAdminPort}`, `port: ${adminPort}`],
  ] as const
  return changes.reduce(
    (text, [usual, actual]) => {
      if (!text.includes(usual)) throw new Error(`${examplePolicy} does not say ${usual} any more`)
      return text.replace(usual, actual)
    },
    readFileSync(examplePolicy, 'utf8'),
  )
}

export interface ExampleGateway {
  readonly handle: GatewayHandle
  readonly url: string
  /** Where a person decides of calls that wait. */
  readonly adminUrl: string
  /** What opens that. */
  readonly tokenFile: string
  /** Where its log is. */
  readonly auditDir: string
  /** The key that signs it, as `keyRef` of the policy has it. */
  readonly keyFile: string
  /** What `svc keys generate` said, on the first run. */
  readonly newKey?: string
}

/**
 * Starts on the policy as it would stand in `policyFile`, with a key and an admin token of its own made beside it on
 * the first run.
 */
export async function startExampleGateway(
  policyYaml: string,
  policyFile: string,
  port: number,
): Promise<ExampleGateway> {
  const stateDir = join(dirname(policyFile), '.svc')
  const keyFile = join(stateDir, 'signing.key')
  const tokenFile = join(stateDir, 'admin.token')
  const newKey = existsSync(keyFile) ? undefined : await makeKey(keyFile)
  if (!existsSync(tokenFile)) makeToken(tokenFile)
  const handle = startGatewayServer({ policyYaml, policyFile, port })
  const { url, adminUrl = '' } = await handle.ready()
  return {
    handle,
    url,
    adminUrl,
    tokenFile,
    auditDir: join(stateDir, 'audit'),
    keyFile,
    ...(newKey === undefined ? {} : { newKey }),
  }
}

async function makeKey(file: string): Promise<string> {
  const { exit, output } = await svc('keys', 'generate', '--out', file)
  if (exit !== 0) throw new Error(`no key could be made: ${output}`)
  return output
}

/** For its owner alone, in the directory that the key has made. */
function makeToken(file: string): void {
  writeFileSync(file, `${randomBytes(32).toString('hex')}\n`, { mode: 0o600, flag: 'wx' })
}

/** A path as one would type it here. */
export function here(path: string): string {
  return relative(process.cwd(), path) || '.'
}
