// The key `server_requests`.
import { patternsSchema } from '@svc/core/policy'
import { z } from 'zod'
import type { ProtectionPreset } from '../shared/protection.js'
import { urlHostsSchema } from '../shared/url-hosts.js'
import type { AskedKind } from './kinds.js'

const action = z.enum(['allow', 'deny', 'record']).optional()

const actions = {
  sampling: action.describe("A request for a response of the client's model. Default: `deny`."),
  elicitation_form: action.describe('A form for the user. Default: `record`.'),
  elicitation_url: action.describe('A URL that the user is to open. Default: `record`.'),
  roots: action.describe('A request for the directories that the client works on. Default: `record`.'),
}

export const serverRequestsSchema = z
  .strictObject({
    effect: z
      .enum(['off', 'report', 'deny'])
      .optional()
      .describe(
        'What happens to a request that is not allowed: `report` records it and passes it. Default: `report` in the preset `observe`, else `deny`.',
      ),
    ...actions,
    servers: z
      .record(z.string().min(1), z.strictObject(actions))
      .optional()
      .describe('The same by the name of a server, in place of the above.'),
    url_hosts: urlHostsSchema
      .optional()
      .describe('Hosts of URLs that servers may send users to: `host` or `*.domain`. Default: none.'),
    expect: patternsSchema(z.array(z.enum(['credential'])))
      .optional()
      .describe('Tools that may ask for credentials, by pattern.'),
  })
  .describe('The requests that servers may send to clients: to their models, users and directories.')

export type ServerRequestsSettings = z.output<typeof serverRequestsSchema>

export type RequestAction = 'allow' | 'deny' | 'record'

export interface ServerRequestsConfig extends Pick<ServerRequestsSettings, 'servers'> {
  readonly effect: 'report' | 'deny'
  readonly actions: Readonly<Record<AskedKind, RequestAction>>
  readonly urlHosts: readonly string[]
  readonly expect: Readonly<Record<string, readonly 'credential'[]>>
}

export function serverRequestsConfig(
  settings: ServerRequestsSettings | undefined,
  preset: ProtectionPreset | undefined,
): ServerRequestsConfig | undefined {
  if (settings === undefined && preset === undefined) return undefined
  const {
    effect = preset === 'observe' ? 'report' : 'deny',
    servers,
    url_hosts = [],
    expect = {},
  } = settings ?? {}
  if (effect === 'off') return undefined
  const {
    sampling = 'deny',
    elicitation_form = 'record',
    elicitation_url = 'record',
    roots = 'record',
  } = settings ?? {}
  return {
    effect,
    servers,
    actions: { sampling, elicitation_form, elicitation_url, roots },
    urlHosts: url_hosts,
    expect,
  }
}
