// The example gateway: this directory's policy, with the real address of the tool server.
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

/** The policy with the real address of the tool server and an admin port: the default ports may be in use. */
export function policyFor(target: string, adminPort: number): string {
  const changes = [
    [usualTarget, target],
    [`port: ${usualAdminPort}`, `port: ${adminPort}`],
  ] as const
  return changes.reduce(
    (text, [usual, actual]) => {
      if (!text.includes(usual)) throw new Error(`${examplePolicy} does not contain ${usual}`)
      return text.replace(usual, actual)
    },
    readFileSync(examplePolicy, 'utf8'),
  )
}

export interface ExampleGateway {
  readonly handle: GatewayHandle
  readonly url: string
  /** The admin listener, where reviewers approve calls. */
  readonly adminUrl: string
  /** File with the bearer token of the admin listener. */
  readonly tokenFile: string
  /** Directory of the audit log. */
  readonly auditDir: string
  /** The signing key, as in `keyRef` of the policy. */
  readonly keyFile: string
  /** Output of `svc keys generate`, on the first run. */
  readonly newKey?: string
}

/**
 * Starts a gateway on the policy; its relative paths start from the directory of `policyFile`. The first run creates a
 * signing key and an admin token there.
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
  if (exit !== 0) throw new Error(`the key could not be created: ${output}`)
  return output
}

/** Readable by its owner only. The directory exists since the key was created. */
function makeToken(file: string): void {
  writeFileSync(file, `${randomBytes(32).toString('hex')}\n`, { mode: 0o600, flag: 'wx' })
}

/** The path relative to the working directory. */
export function here(path: string): string {
  return relative(process.cwd(), path) || '.'
}
