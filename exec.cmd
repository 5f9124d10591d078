@rem cmd.exe has no exec. The scripts of package.json begin with it, so that signals to npm reach the program; here they run this file.
@%*
