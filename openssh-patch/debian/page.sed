# Names and paths in OpenSSH's manual pages.
s/^\.Dt \(SSH\|SCP\|SFTP\)/.Dt AUTOBUF-\1/
s/^\(\.Nm\) \(ssh\|scp\|sftp\|sshd\|ssh_config\|sshd_config\)\( .*\)\{0,1\}$/\1 autobuf-\2\3/
s/\(Xr\) \(ssh 1\|scp 1\|sftp 1\|sshd 8\|ssh_config 5\|sshd_config 5\)/\1 autobuf-\2/
s|/run/sshd\.pid|/run/autobuf-sshd.pid|
s|/etc/pam\.d/sshd|/etc/pam.d/autobuf-sshd|
# What openssh-client and openssh-server set.
/^Note that the Debian$/,/_config\.$/c\
The file that the package installs says what it sets.
# autobuf-port.c.
/^Specifies the port number to connect on the remote host\.$/{
n
s/.*/The default is 222 and, where nothing answers there within a second, 22./
}
