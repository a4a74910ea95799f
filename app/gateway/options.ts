// The options by which code starts a gateway: everything that a policy file can say, and more.
import { bind, type Plugin, type SectionsOf } from '@svc/core'
import type { PolicyLayer } from '@svc/core/policy'
import type { DependencyContainer } from 'tsyringe'
import type { HostOptions } from '../policy/config.js'
import type { MiddlewareConfig, RequiredSection } from '../policy/plugins.js'
import { readPolicyText } from '../policy/policy-text.js'
import type { StdioTargetOptions } from '../stdio/targets/config.js'

export type { MiddlewareConfig, RequiredSection }

/** The options by parts; a policy replaces the parts that it has. */
export interface GatewaySettings extends Partial<MiddlewareConfig> {
  /** HTTP listen port; 0 picks a free one. */
  port?: number
  /** Tenant of calls without a token. */
  tenant?: string
  /** Upstream server name → base URL, or the command of an MCP server over stdio. */
  targets?: Record<string, string | StdioTargetOptions>
  /** A policy in YAML; its sections replace those given here. */
  policyYaml?: string
  /** The same as an object; not together with `policyYaml`. */
  policyObject?: Record<string, unknown>
  /**
   * The file of the policy, read if neither `policyYaml` nor `policyObject` is given. It names the policy in diagnostics,
   * and relative paths in it start from its directory (else the working one).
   */
  policyFile?: string
  /** The directory of the gateway's files; `.svc` by default. */
  sec0Dir?: string
  /** Time-outs and caps of the server. */
  server?: HostOptions['server']
  /** Several targets as one MCP server. */
  federation?: HostOptions['federation']
  /** The listener for operators and reviewers; if absent, there is none. */
  admin?: HostOptions['admin']
  /** Webhooks that receive notices of events. */
  notices?: HostOptions['notices']
  /** Programs that print secrets, for references `command:NAME`. */
  secrets?: HostOptions['secrets']
  /** The order of stages, outermost first. */
  pipeline?: string[]
  /** Plugins from code, beside those that ship. */
  plugins?: readonly Plugin[]
  /** Runs before anything is resolved: bind your own signer, quota adapter or any other token here. */
  configure?(container: DependencyContainer): void
  /** The variables for `${env:NAME}`; the process's environment by default. */
  env?: Readonly<Record<string, string | undefined>>
}

type RequiredKey = 'port' | 'tenant' | 'targets' | RequiredSection

/** Code gives what is required if there is no policy; else the policy may have it. */
type Source<Key extends RequiredKey> =
  | (Required<Pick<GatewaySettings, Key>> & {
      policyYaml?: undefined
      policyObject?: undefined
      policyFile?: undefined
    })
  | { policyYaml: string }
  | { policyObject: Record<string, unknown> }
  | { policyFile: string }

/** The sections of plugins from code, if they are a tuple, as their names are then known. */
type OwnSections<Plugins extends readonly Plugin[]> = number extends Plugins['length']
  ? unknown
  : Partial<SectionsOf<Plugins>>

/** `Plugins` are those from code; their sections stand beside the built-in ones, or replace them. */
export type OptionsRequiring<Key extends RequiredKey, Plugins extends readonly Plugin[]> = Omit<
  GatewaySettings,
  'plugins' | keyof OwnSections<Plugins>
> & { plugins?: Plugins } & OwnSections<Plugins> &
  Source<Key>

/** Options of a gateway that listens. */
export type GatewayOptions<Plugins extends readonly Plugin[] = readonly Plugin[]> = OptionsRequiring<
  RequiredKey,
  Plugins
>

/** Options of a pipeline in process: it has no port, and its targets have no meaning. */
export type PipelineOptions<Plugins extends readonly Plugin[] = readonly Plugin[]> = OptionsRequiring<
  'tenant' | RequiredSection,
  Plugins
>

/**
 * Binds the implementations that code passes within a section, such as `quotas.adapter`, so that a policy's section
 * does not replace them; returns the options without these. One that is bound already stays: that is a mistake, which
 * loading the policy reports.
 */
export function bindGiven(
  options: GatewaySettings,
  plugins: readonly Plugin[],
  container: DependencyContainer,
): GatewaySettings {
  const rest: Record<string, unknown> = { ...options }
  for (const { name, owns = [] } of plugins) {
    for (const { token, fromOption } of owns) {
      const section = rest[name]
      if (fromOption === undefined || typeof section !== 'object' || section === null) continue
      const value = fromOption.bind(Reflect.get(section, fromOption.key))
      if (value === undefined || container.isRegistered(token, true)) continue
      bind(container, token, { useValue: value })
      rest[name] = Object.fromEntries(Object.entries(section).filter(([key]) => key !== fromOption.key))
    }
  }
  return rest
}

/** The layers, the strongest last: sections from code, the policy, then port, tenant and state directory from code. */
export function layersOf(options: GatewaySettings): PolicyLayer[] {
  const { policyYaml, policyObject, policyFile, port, tenant, sec0Dir } = options
  if (policyYaml !== undefined && policyObject !== undefined) {
    throw new TypeError('policyYaml and policyObject are both given; give one')
  }
  const { plugins: _plugins, configure: _configure, env: _env, ...rest } = options
  const { policyYaml: _yaml, policyObject: _object, policyFile: _file, ...sections } = rest
  const layers: PolicyLayer[] = [{ file: 'options', object: withoutUndefined(sections) }]
  if (policyYaml !== undefined) layers.push({ file: policyFile ?? 'policyYaml', text: policyYaml })
  else if (policyObject !== undefined)
    layers.push({ file: policyFile ?? 'policyObject', object: policyObject })
  else if (policyFile !== undefined) layers.push({ file: policyFile, text: readPolicyText(policyFile) })
  if (layers.length > 1) layers.push({ file: 'options', object: withoutUndefined({ port, tenant, sec0Dir }) })
  return layers
}

function withoutUndefined(object: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined))
}
