// The options of commands that use the admin listener, and the client that they describe.
import type { Command } from 'commander'
import type { z } from 'zod'
import { AdminClient, AdminError } from './admin-client.js'
import type { Environment } from './io.js'

export interface AdminFlags {
  readonly admin?: string
  readonly tokenRef?: string
  readonly policy?: string
  readonly insecureHttp?: boolean
  readonly json?: boolean
}

export function withAdminOptions(command: Command, { json = true } = {}): Command {
  const connecting = command
    .option('--policy <file>', "the gateway's policy: its admin listener and admin token")
    .option('--admin <url>', 'the admin listener (default SVC_ADMIN_URL)')
    .option('--token-ref <ref>', 'your token: env:NAME or file://PATH (default env:SVC_ADMIN_TOKEN)')
    .option('--insecure-http', 'send the token over plain http to another machine')
  return json ? connecting.option('--json', 'print the response as JSON') : connecting
}

/** An option has precedence over the policy, and the policy over the environment. */
export async function adminClientOf(flags: AdminFlags, env: Environment): Promise<AdminClient> {
  const { policy, insecureHttp = false } = flags
  const listener = policy === undefined ? undefined : await listenerOf(policy, flags, env)
  const url = listener?.url ?? flags.admin ?? env['SVC_ADMIN_URL']
  if (url === undefined) {
    throw new AdminError('give --policy FILE or --admin URL, or set SVC_ADMIN_URL')
  }
  const token = listener?.token ?? { tokenRef: flags.tokenRef ?? 'env:SVC_ADMIN_TOKEN' }
  return AdminClient.open({ url, insecureHttp, ...token }, env)
}

async function listenerOf(file: string, { admin, tokenRef }: AdminFlags, env: Environment) {
  // Imported here, because it loads every plugin.
  const { adminUrlOf, gatewayOf } = await import('./policy-gateway.js')
  const gateway = await gatewayOf(file, env)
  const url = admin ?? adminUrlOf(file, gateway.admin)
  const ref = gateway.admin?.tokenRef
  const isOwn = tokenRef !== undefined || ref === undefined
  return { url, token: isOwn ? undefined : { tokenRef: ref, baseDir: gateway.baseDir } }
}

export function parseAdminResponse<T>(schema: z.ZodType<T>, response: unknown): T {
  const result = schema.safeParse(response)
  if (result.success) return result.data
  throw new AdminError('the response does not have the form of an admin listener')
}
