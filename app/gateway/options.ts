// What code may say to start a gateway: everything a policy file can, and more.
import { bind, type Plugin, type SectionsOf } from '@svc/core'
import type { PolicyLayer } from '@svc/core/policy'
import type { DependencyContainer } from 'tsyringe'
import type { HostOptions } from '../policy/config.js'
import type { StdioTargetOptions } from '../stdio-targets/config.js'
import type { MiddlewareConfig, RequiredSection } from './plugins.js'

export type { MiddlewareConfig, RequiredSection }

/** Each part of the options by itself; the parts that a policy leaves out come from here. */
export interface GatewaySettings extends Partial<MiddlewareConfig> {
  /** HTTP listen port; 0 picks a free one. */
  port?: number
  /** Tenant of calls that no token attributes. */
  tenant?: string
  /** Upstream server name → base URL, or the command of an MCP server over stdio. */
  targets?: Record<string, string | StdioTargetOptions>
  /** A policy in YAML; its sections replace those given here. */
  policyYaml?: string
  /** The same as an object; not together with `policyYaml`. */
  policyObject?: Record<string, unknown>
  /** Names the policy in diagnostics; relative paths in it start from its directory (else the working one). */
  policyFile?: string
  /** Where the gateway keeps its files; `.svc` by default. */
  sec0Dir?: string
  /** Time-outs and caps of the server. */
  server?: HostOptions['server']
  /** Several targets as one MCP server. */
  federation?: HostOptions['federation']
  /** The listener for operators and reviewers; none where it is absent. */
  admin?: HostOptions['admin']
  /** Webhooks that receive notices of events. */
  notices?: HostOptions['notices']
  /** The order of stages, outermost first. */
  pipeline?: string[]
  /** Plugins from code, beside those that ship. */
  plugins?: readonly Plugin[]
  /** Runs before anything is resolved: bind your own signer, quota adapter or any other token here. */
  configure?(container: DependencyContainer): void
  /** What `${env:NAME}` reads; the process's environment by default. */
  env?: Readonly<Record<string, string | undefined>>
}

type RequiredKey = 'port' | 'tenant' | 'targets' | RequiredSection

/** Without a policy, code gives what is required; with one, the policy may have it. */
type Source<Key extends RequiredKey> =
  | (Required<Pick<GatewaySettings, Key>> & { policyYaml?: undefined; policyObject?: undefined })
  | { policyYaml: string }
  | { policyObject: Record<string, unknown> }

/** The sections of plugins from code, where they are a tuple: then their names are known. */
type OwnSections<Plugins extends readonly Plugin[]> = number extends Plugins['length']
  ? unknown
  : Partial<SectionsOf<Plugins>>

/** `Plugins`: those from code; their sections stand beside the built-in ones, or replace them. */
export type OptionsRequiring<Key extends RequiredKey, Plugins extends readonly Plugin[]> = Omit<
  GatewaySettings,
  'plugins' | keyof OwnSections<Plugins>
> & { plugins?: Plugins } & OwnSections<Plugins> &
  Source<Key>

/** Of a gateway that listens. */
export type GatewayOptions<Plugins extends readonly Plugin[] = readonly Plugin[]> = OptionsRequiring<
  RequiredKey,
  Plugins
>

/** Of a pipeline in process: it has no port, and its targets have no meaning. */
export type PipelineOptions<Plugins extends readonly Plugin[] = readonly Plugin[]> = OptionsRequiring<
  'tenant' | RequiredSection,
  Plugins
>

/**
 * Binds the implementations that code passes within a section, such as `quotas.adapter`, so that a policy's section
 * does not replace them; returns the options without these. One that is bound already stays where it is: that is a
 * mistake, which loading the policy reports.
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

/** Sections from code below the policy's; port, tenant and state directory from code above them. */
export function layersOf(options: GatewaySettings): PolicyLayer[] {
  const { policyYaml, policyObject, policyFile, port, tenant, sec0Dir } = options
  if (policyYaml !== undefined && policyObject !== undefined) {
    throw new TypeError('policyYaml and policyObject are both given; give one')
  }
  const { plugins: _plugins, configure: _configure, env: _env, ...rest } = options
  const { policyYaml: _yaml, policyObject: _object, policyFile: _file, ...sections } = rest
  const layers: PolicyLayer[] = [{ file: 'options', object: given(sections) }]
  if (policyYaml !== undefined) layers.push({ file: policyFile ?? 'policyYaml', text: policyYaml })
  if (policyObject !== undefined) layers.push({ file: policyFile ?? 'policyObject', object: policyObject })
  if (layers.length > 1) layers.push({ file: 'options', object: given({ port, tenant, sec0Dir }) })
  return layers
}

function given(object: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined))
}
