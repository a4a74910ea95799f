// `svc control-plane`: runs the command of `@svc/control-plane`, which is installed separately because the AWS
// SDK is large.
import { Command } from 'commander'

const packageName = '@svc/control-plane'

export function controlPlaneCommand(): Command {
  return new Command('control-plane')
    .argument('[args...]', 'as `control-plane --help` lists them, if the package is installed')
    .helpOption(false)
    .allowUnknownOption()
    .passThroughOptions()
    .action(run)
}

async function run(args: readonly string[]): Promise<void> {
  const { main } = await loadControlPlane('the control plane')
  await main(args, 'svc-sdk control-plane')
}

/** @param what names the command that needs the package, for the message if it is missing. */
export function loadControlPlane(what: string): Promise<typeof import('@svc/control-plane')> {
  return import('@svc/control-plane').catch((error: unknown) => {
    throw isMissing(error)
      ? new Error(`${what} needs another package: npm install ${packageName}`, { cause: error })
      : error
  })
}

/** False if the package is there and a dependency of it is missing. */
function isMissing(error: unknown): boolean {
  return (
    error instanceof Error &&
    'code' in error &&
    error.code === 'ERR_MODULE_NOT_FOUND' &&
    error.message.includes(`'${packageName}'`)
  )
}
