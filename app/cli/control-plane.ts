// `svc control-plane`: runs the command of `@svc/control-plane`, which is installed separately because the AWS
// SDK is large.
import { Command } from 'commander'

const packageName = '@svc/control-plane'

export function controlPlaneCommand(): Command {
  return new Command('control-plane')
    .description(`receive uploaded logs (needs the package ${packageName})`)
    .argument('[args...]')
    .helpOption(false)
    .allowUnknownOption()
    .passThroughOptions()
    .action(run)
}

async function run(args: readonly string[]): Promise<void> {
  const { main } = await import('@svc/control-plane').catch((fault: unknown) => {
    throw isMissing(fault)
      ? new Error(`control-plane needs a package of its own: npm install ${packageName}`, { cause: fault })
      : fault
  })
  await main(args, 'svc-sdk control-plane')
}

/** Not so when the package is there and a dependency of it is missing. */
function isMissing(fault: unknown): boolean {
  return (
    fault instanceof Error &&
    'code' in fault &&
    fault.code === 'ERR_MODULE_NOT_FOUND' &&
    fault.message.includes(`'${packageName}'`)
  )
}
