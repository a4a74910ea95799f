// The example gateway: this directory's policy, in front of a tool server that may be elsewhere than it says.
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type GatewayHandle, startGatewayServer } from 'svc-sdk/gateway'
import { svc } from './svc.js'

export const examplePolicy = fileURLToPath(new URL('../policy.yaml', import.meta.url))

const usualTarget = 'http://127.0.0.1:8788/billing'
export const usualToolPort = Number(new URL(usualTarget).port)

/** The example's policy with the address the tool server really has: its usual port may be taken. */
export function policyFor(target: string): string {
  const text = readFileSync(examplePolicy, 'utf8')
  if (!text.includes(usualTarget)) throw new Error(`${examplePolicy} does not name ${usualTarget} any more`)
  return text.replace(usualTarget, target)
}

export interface ExampleGateway {
  readonly handle: GatewayHandle
  readonly url: string
  /** Where its log is. */
  readonly auditDir: string
  /** The key that signs it, as `keyRef` of the policy has it. */
  readonly keyFile: string
  /** What `svc keys generate` said, on the first run. */
  readonly newKey?: string
}

/** Starts on the policy as it would stand in `policyFile`, with a key of its own made beside it on the first run. */
export async function startExampleGateway(
  policyYaml: string,
  policyFile: string,
  port: number,
): Promise<ExampleGateway> {
  const stateDir = join(dirname(policyFile), '.svc')
  const keyFile = join(stateDir, 'signing.key')
  const newKey = existsSync(keyFile) ? undefined : await makeKey(keyFile)
  const handle = startGatewayServer({ policyYaml, policyFile, port })
  const { url } = await handle.ready()
  return {
    handle,
    url,
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

/** A path as one would type it here. */
export function here(path: string): string {
  return relative(process.cwd(), path) || '.'
}
