// A protection owns one key of the section, and a folder. The section has no keys but these and `preset`.
import type {
  ConfigConflict,
  DependencyContainer,
  MetricEntry,
  Plugin,
  PluginContext,
  Stage,
} from '@svc/core'
import type { z } from 'zod'

/** The effect of all protections that have no key of their own: report, or protect. */
export type ProtectionPreset = 'observe' | 'guard'

/** A protection that the section turns on. The members have the meaning of those of plugins. */
export interface ConfiguredProtection {
  check?(bindings: DependencyContainer): readonly ConfigConflict[]
  create(context: PluginContext): Stage
}

export interface Protection<Schema extends z.ZodType = z.ZodType>
  extends Pick<Plugin, 'owns' | 'provides' | 'reasons' | 'uses'> {
  readonly metrics?: Readonly<Record<string, MetricEntry>>
  /** Strict; without defaults where the presets differ. */
  readonly schema: Schema
  /** Either argument may be absent. Returns undefined if the protection is off. */
  configure(
    settings: z.output<Schema> | undefined,
    preset: ProtectionPreset | undefined,
  ): ConfiguredProtection | undefined
}

/** Infers the type of `settings` from the schema. */
export function defineProtection<Schema extends z.ZodType>(
  protection: Protection<Schema>,
): Protection<Schema> {
  return protection
}
