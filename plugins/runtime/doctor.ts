// For `svc doctor`: the API key and the endpoint of a remote runtime.
import { checkServer, checkUsable, type DoctorCheck, type PluginContext, resolve, tokens } from '@svc/core'
import { KeyReader } from '@svc/core/secret'
import type { RuntimeConfig } from './config.js'
import { apiKeySource } from './remote/api-key.js'

export async function checkRuntime(
  { enforcement: { mode, remote } }: RuntimeConfig,
  context: PluginContext,
): Promise<readonly DoctorCheck[]> {
  if (mode !== 'remote' || remote?.endpoint === undefined) return []
  const server = await checkServer('the runtime', remote.endpoint)
  if (remote.apiKeyRef === undefined) return server
  const source = apiKeySource(remote, new KeyReader(context), resolve(context.container, tokens.Clock))
  const hint = 'set what runtime.enforcement.remote.apiKeyRef names'
  return [await checkUsable("the runtime's API key", hint, source), ...server]
}
